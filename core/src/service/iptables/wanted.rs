//! The rules of one service port, place by place, in the forms that the proxy writes.
//!
//! Invariant: from the expected port and the proxy's flags alone. Source: `pkg/proxy/iptables/proxier.go` `syncProxyRules`,
//! the loop over service ports, and `writeServiceToEndpointRules`; 1.34 to 1.36 write the same.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::chain;
use super::dump::{Not, Recent, Rule};
use super::form::{Form, Presence};
use super::lists::{Detector, Flags, MARK, Marked, NODE_PORTS};
use crate::model::port::Protocol;
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::Kind;

fn about(key: FrontendKey, target: &str) -> Rule {
    Rule {
        destination: key.address.map(|address| Not { negated: false, value: IpNet::from(address) }),
        protocol: Some(key.protocol),
        destination_port: Some(key.port),
        ..Rule::to(target)
    }
}

fn from(net: IpNet, rule: Rule) -> Rule {
    Rule { source: Some(Not { negated: false, value: net }), ..rule }
}

/// What a port has in the lists of all Services: the list and the forms.
pub(super) fn entries(port: &ExpectedPort) -> Vec<((&'static str, &'static str), Form)> {
    let mut all = Vec::new();
    for frontend in &port.frontends {
        let key = frontend.key;
        let list = if frontend.kind == RouteKind::NodePort { NODE_PORTS } else { "KUBE-SERVICES" };
        if let Some(target) = target(port, frontend) {
            let missing = format!("no rule of {list} sends {key} {} to {target}", key.protocol);
            let form = Form::new(0, Kind::Frontend, about(key, &target), missing);
            if frontend.kind == RouteKind::NodePort && port.family == AddressType::Ipv4 {
                all.push((("nat", list), at_loopback(&form)));
            }
            let wrong = format!(
                "{key} should go to {target}, and the rule takes other packets or sends them elsewhere"
            );
            all.push((("nat", list), Form { wrong, ..form }));
        }
        let end = match frontend.action {
            Action::Refuse => Some("REJECT"),
            Action::Drop => Some("DROP"),
            Action::Cluster | Action::Local => None,
        };
        if let Some(end) = end {
            let list = list_of_ends(frontend);
            let rule = Rule { to_node: frontend.kind == RouteKind::NodePort, ..about(key, end) };
            let missing = format!("{key} has no endpoint here and no {end} rule says so");
            let form = Form::new(0, Kind::End, rule, missing);
            all.push((("filter", list), Form { wrong: format!("{key} should end in {end}"), ..form }));
        }
        if frontend.kind == RouteKind::LoadBalancer && has_firewall(port) {
            let missing = "clients in no range are not dropped";
            let form = Form::new(0, Kind::SourceRange, about(key, "DROP"), missing);
            all.push((("filter", "KUBE-PROXY-FIREWALL"), Form { wrong: missing.to_owned(), ..form }));
        }
    }
    if let Some(number) = port.health_check {
        let key = FrontendKey { address: None, port: number, protocol: Protocol::Tcp };
        let missing = format!(
            "where INPUT drops what nobody accepts, balancers get no answer from health check port {number} and take the node out; else nothing fails"
        );
        let form = Form::new(0, Kind::HealthCheck, about(key, "ACCEPT"), missing.clone());
        all.push((("filter", NODE_PORTS), Form { wrong: missing, presence: Presence::Many, ..form }));
    }
    all
}

/// Where packets to an address end that has no endpoints.
pub(super) const fn list_of_ends(frontend: &ExpectedFrontend) -> &'static str {
    if matches!(frontend.kind, RouteKind::ClusterIp) { "KUBE-SERVICES" } else { "KUBE-EXTERNAL-SERVICES" }
}

/// With `--iptables-localhost-nodeports` the kernel counts those that come by the loopback.
fn at_loopback(form: &Form) -> Form {
    let loopback = IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8));
    let rule = Rule { destination: Some(Not { negated: false, value: loopback }), ..form.rule.clone() };
    Form { rule, presence: Presence::Optional, pairs: false, ..form.clone() }
}

fn has_firewall(port: &ExpectedPort) -> bool {
    let balanced = port.frontends.iter().any(|frontend| frontend.kind == RouteKind::LoadBalancer);
    balanced && !port.source_ranges.is_empty() && port.has_endpoints()
}

/// The chain to which packets to an address go.
fn target(port: &ExpectedPort, frontend: &ExpectedFrontend) -> Option<String> {
    let name = &port.name;
    match (frontend.kind, frontend.action) {
        (RouteKind::ClusterIp, Action::Cluster) => Some(chain::cluster(name)),
        (RouteKind::ClusterIp, Action::Local) => Some(chain::local(name)),
        (RouteKind::ClusterIp, _) => None,
        // Also where the policy leaves nothing for clients outside: the node's own pods go on through it.
        _ if !port.has_endpoints() => None,
        (RouteKind::LoadBalancer, _) if has_firewall(port) => Some(chain::firewall(name)),
        _ => Some(chain::external(name)),
    }
}

/// The chain by which node ports, balancers' and external addresses go in; `None` when there is none.
pub(super) fn external(port: &ExpectedPort, flags: &Flags) -> Option<(String, Vec<Form>)> {
    let is_outside = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
    if !is_outside || !port.has_endpoints() {
        return None;
    }
    let name = &port.name;
    let (cluster, local) = (chain::cluster(name), chain::local(name));
    let mut forms = Vec::new();
    if port.policy.external_local {
        let of_node = |target: &str| Rule { from_node: true, ..Rule::to(target) };
        if let Some(pods) = &flags.pods {
            let missing = "packets of the node's pods reach only endpoints of the node";
            forms.push(Form::new(0, Kind::Backend, pods.ask(Rule::to(&cluster), false), missing));
        }
        let missing = "the node's own packets to it keep their source, so replies find no way back";
        forms.push(Form::new(1, Kind::Masquerade, of_node(MARK), missing));
        let missing = "the node's own packets reach only endpoints of the node";
        forms.push(Form::new(2, Kind::Backend, of_node(&cluster), missing));
        if !port.local.is_empty() {
            let missing = "packets from outside reach no endpoint, or those of the node and its pods only endpoints of the node";
            forms.push(Form::new(3, Kind::Backend, Rule::to(&local), missing));
        }
    } else {
        let missing = "packets from outside keep their source, so replies of other nodes' endpoints get lost";
        forms.push(Form::new(0, Kind::Masquerade, Rule::to(MARK), missing));
        if !port.cluster.is_empty() {
            let missing = "packets from outside reach no endpoint";
            forms.push(Form::new(1, Kind::Backend, Rule::to(&cluster), missing));
        }
    }
    for form in &mut forms {
        form.wrong.clone_from(&form.missing);
    }
    Some((chain::external(name), forms))
}

/// Who may come to a balancer's address: one rule for each range.
pub(super) fn firewall(port: &ExpectedPort) -> Option<(String, Vec<Form>)> {
    if !has_firewall(port) {
        return None;
    }
    let external = chain::external(&port.name);
    let form = |net: IpNet, presence| Form {
        object: net.to_string(),
        pairs: false,
        presence,
        ..Form::new(
            0,
            Kind::SourceRange,
            from(net, Rule::to(&external)),
            "clients of this range are kept out",
        )
    };
    // A range that the Service has twice is written twice.
    let mut seen = BTreeSet::new();
    let ranges = port.source_ranges.iter().filter(|range| seen.insert(**range));
    let mut forms: Vec<Form> = ranges.map(|range| form(*range, Presence::Many)).collect();
    // The node's own packets may come from the balancer's address, which nodes have on a device of theirs.
    let own = match port.admits_balancers() {
        Some(true) => Some(Presence::Once),
        Some(false) => None,
        None => Some(Presence::Optional),
    };
    let known = |ip: &IpNet| !port.source_ranges.contains(ip);
    let balancers = port.balancers().map(IpNet::from).filter(known);
    if let Some(presence) = own {
        let missing = "the node's own packets come from the balancer's address, and are kept out";
        forms.extend(balancers.map(|ip| Form { missing: missing.to_owned(), ..form(ip, presence) }));
    }
    Some((chain::firewall(&port.name), forms))
}

/// A chain that spreads: all of it but the choices themselves, which depend on each other.
pub(super) fn service(
    port: &ExpectedPort,
    endpoints: &[SocketAddr],
    action: Action,
    flags: &Flags,
) -> Vec<Form> {
    let mut forms = Vec::new();
    let internal = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    if let Some(frontend) = internal.filter(|frontend| frontend.action == action) {
        let rule = about(frontend.key, MARK);
        let rule = match &flags.marked {
            Marked::Nobody => None,
            Marked::All => Some(rule),
            Marked::OfOthers(detector) => Some(Detector::ask(detector, rule, true)),
        };
        let missing = "packets of who is no pod keep their source, so replies find no way back";
        let wrong = "other packets to its cluster IP are masqueraded than should be: those of pods lose their source, or those of others keep it and replies find no way back";
        forms.extend(
            rule.map(|rule| Form {
                wrong: wrong.to_owned(),
                ..Form::new(0, Kind::Masquerade, rule, missing)
            }),
        );
    }
    for (endpoint, seconds) in endpoints.iter().filter_map(|endpoint| Some((endpoint, port.affinity?))) {
        let target = chain::endpoint(&port.name, *endpoint);
        let recent =
            Recent { name: target.clone(), check: true, set: false, seconds: Some(seconds), reap: true };
        let words = format!(
            "clients should stay for {seconds} s, by their whole address and from the second connection on"
        );
        forms.push(Form {
            endpoint: Some(endpoint.to_string()),
            wrong: words.clone(),
            ..Form::new(1, Kind::Affinity, Rule { recent: Some(recent), ..Rule::to(&target) }, words)
        });
    }
    forms
}

/// The chain of one endpoint.
pub(super) fn endpoint(port: &ExpectedPort, name: &str, endpoint: SocketAddr) -> Vec<Form> {
    let recent = Recent { name: name.to_owned(), set: true, ..Recent::default() };
    let translation = Rule {
        protocol: Some(port.name.protocol),
        to_destination: Some(endpoint),
        recent: port.affinity.map(|_| recent),
        ..Rule::to("DNAT")
    };
    let missing = "the endpoint that asks its own Service gets no answer";
    let hairpin = Form::new(0, Kind::Masquerade, from(IpNet::from(endpoint.ip()), Rule::to(MARK)), missing);
    let missing = format!("{name} does not translate, so its share goes on to the rule after it");
    let translation = Form::new(1, Kind::Empty, translation, missing);
    let of = |form: Form, wrong: &str| Form {
        object: name.to_owned(),
        endpoint: Some(endpoint.to_string()),
        wrong: wrong.to_owned(),
        ..form
    };
    vec![
        of(hairpin, "the endpoint that asks its own Service gets no answer, or others lose their source"),
        of(translation, &format!("its name is that of {endpoint}")),
    ]
}
