//! Comparing what leads into the chains of a service port: from outside, and whose packets are masqueraded on the way.
//!
//! Invariant: rules that depend on who is a pod are asked for only where the proxy knows that, which the dump shows. Both
//! ways of marking are known: see [`masquerade`]. Source:
//! `pkg/proxy/nftables/proxier.go` `syncProxyRules`.

use super::chain;
use super::dump::{Act, Dump, Pods, Rule, Verdict};
use super::follow::{NODE_PORT_IPS, in_chain};
use super::masquerade::{self, MARKS, is_bare, marks};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedPort};
use crate::service::fault::{Difference, Fault, Kind, Place};

fn goes_to(rule: &Rule, chain: &str) -> bool {
    matches!(&rule.act, Act::Verdict(Verdict::Goto(to) | Verdict::Jump(to)) if to == chain)
}

pub(super) fn missing(kind: Kind, object: &str, chain: &str, detail: &str) -> Fault {
    Fault {
        difference: Difference::Missing,
        kind,
        object: object.to_owned(),
        place: Place::within(super::TABLE, chain),
        endpoint: None,
        detail: detail.to_owned(),
    }
}

/// The rules of a chain.
pub(super) fn rules<'a>(dump: &'a Dump, chain: &str) -> &'a [Rule] {
    dump.chains.get(chain).map_or(&[], Vec::as_slice)
}

/// The chain by which node ports, balancers' and external addresses go in.
pub(super) fn of_outside(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let is_outside = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
    if !is_outside || !port.has_endpoints() {
        return;
    }
    let name = chain::external(&port.name);
    let (cluster, local) = (chain::cluster(&port.name), chain::local(&port.name));
    let any = |is: &dyn Fn(&Rule) -> bool| rules(dump, &name).iter().any(is);
    let all = is_bare;
    let of_node = |rule: &Rule| rule.from_node && is_bare(&Rule { from_node: false, ..rule.clone() });
    if port.policy.external_local {
        if !any(&|rule| marks(rule) && of_node(rule)) {
            let detail = "the node's own packets to it keep their source, so replies find no way back";
            faults.push(missing(Kind::Masquerade, "mark", &name, detail));
        }
        if !any(&|rule| goes_to(rule, &cluster) && of_node(rule)) {
            let detail = "the node's own packets reach only endpoints of the node";
            faults.push(missing(Kind::Backend, &cluster, &name, detail));
        }
        if knows_pods(dump) && !any(&|rule| goes_to(rule, &cluster) && asks_for_pods(rule)) {
            let detail = "packets of the node's pods reach only endpoints of the node";
            faults.push(missing(Kind::Backend, &cluster, &name, detail));
        }
        if !port.local.is_empty() && !any(&|rule| goes_to(rule, &local) && all(rule)) {
            faults.push(missing(Kind::Backend, &local, &name, "packets from outside reach no endpoint"));
        }
    } else {
        if !any(&|rule| marks(rule) && all(rule)) {
            let detail =
                "packets from outside keep their source, so replies of other nodes' endpoints get lost";
            faults.push(missing(Kind::Masquerade, "mark", &name, detail));
        }
        if !port.cluster.is_empty() && !any(&|rule| goes_to(rule, &cluster) && all(rule)) {
            faults.push(missing(Kind::Backend, &cluster, &name, "packets from outside reach no endpoint"));
        }
    }
}

/// Packets of who is no pod, and of endpoints to themselves, where chains of the port's own mark them: before 1.36.
pub(super) fn of_inside(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    if !dump.chains.contains_key(MARKS) {
        return;
    }
    let internal = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    let name = internal.and_then(|frontend| match frontend.action {
        Action::Cluster => Some(chain::cluster(&port.name)),
        Action::Local => Some(chain::local(&port.name)),
        Action::Refuse | Action::Drop => None,
    });
    if let Some(name) = name
        && knows_pods(dump)
        && !rules(dump, &name).is_empty()
        && !rules(dump, &name).iter().any(marks)
    {
        let detail = "packets of who is no pod keep their source, so replies find no way back";
        faults.push(missing(Kind::Masquerade, MARKS, &name, detail));
    }
    for endpoint in port.cluster.iter().chain(&port.local) {
        let name = chain::endpoint(&port.name, *endpoint);
        let own = rules(dump, &name);
        let translates = own.iter().any(|rule| rule.act == Act::Translate(*endpoint));
        let itself = |rule: &Rule| {
            let source = Some((false, endpoint.ip().into()));
            rule.source == source && is_bare(&Rule { source: None, ..rule.clone() })
        };
        if translates && !own.iter().any(|rule| marks(rule) && itself(rule)) {
            let detail = "the endpoint that asks its own Service gets no answer";
            let fault = missing(Kind::Masquerade, &name, &name, detail);
            faults.push(Fault { endpoint: Some(endpoint.to_string()), ..fault });
        }
    }
}

/// Where pods are, if the proxy was told so by a network.
pub(super) fn pods(dump: &Dump) -> Option<ipnet::IpNet> {
    match dump.pods {
        Some(Pods::Net(net)) => Some(net),
        Some(Pods::Interface(_)) | None => None,
    }
}

/// By the source, or by the interface.
const fn asks_for_pods(rule: &Rule) -> bool {
    rule.source.is_some() || rule.interface.is_some()
}

/// Whether this proxy was told who is a pod: some rule then asks for it.
pub(super) fn knows_pods(dump: &Dump) -> bool {
    let asks = |rules: &[Rule]| rules.iter().any(asks_for_pods);
    // By range: there may be many more chains of endpoints.
    asks(rules(dump, "services"))
        || ["external-", "local-", "service-"].iter().any(|start| {
            let chains =
                dump.chains.range((*start).to_owned()..).take_while(|(name, _)| name.starts_with(start));
            chains.into_iter().any(|(_, rules)| asks(rules))
        })
}

/// Compares what all Services of the node share.
#[must_use]
pub fn shared_faults(dump: &Dump) -> Vec<Fault> {
    let mut faults = Vec::new();
    of_hooks(dump, &mut faults);
    let has = |chain: &str, is: &dyn Fn(&Rule) -> bool| rules(dump, chain).iter().any(is);
    let lookup = |map: &'static str| move |rule: &Rule| rule.act == Act::Lookup(map.to_owned());
    let rejects = |rule: &Rule| rule.act == Act::Verdict(Verdict::Reject);
    for (chain, map, kind, detail) in [
        ("services", "service-ips", Kind::Jump, "addresses of Services are not looked up"),
        ("services", "service-nodeports", Kind::Jump, "node ports are not translated"),
        (
            "service-endpoints-check",
            "no-endpoint-services",
            Kind::End,
            "Services without endpoints refuse nobody",
        ),
        (
            "nodeport-endpoints-check",
            "no-endpoint-nodeports",
            Kind::End,
            "node ports without endpoints refuse nobody",
        ),
        ("firewall-check", "firewall-ips", Kind::SourceRange, "everybody may come to balancers' addresses"),
    ] {
        if !has(chain, &lookup(map)) {
            faults.push(missing(kind, map, chain, detail));
        }
    }
    for (chain, detail) in [
        ("cluster-ips-check", "what is not translated times out where it should be refused"),
        ("reject-chain", "Services without endpoints let clients time out"),
    ] {
        if !has(chain, &rejects) {
            faults.push(missing(Kind::End, "reject", chain, detail));
        }
    }
    masquerade::shared(dump, &mut faults);
    of_strangers(dump, &mut faults);
    if dump.has_iptables_mode {
        faults.push(Fault {
            difference: Difference::Extra,
            place: Place::within("nat", "KUBE-SERVICES"),
            ..missing(
                Kind::Leftover,
                "iptables",
                "KUBE-SERVICES",
                "rules of iptables mode are on the node, too; they take packets, and no proxy keeps them up to date",
            )
        });
    }
    faults
}

/// Each of the kernel's hooks must lead to the proxy's chains, by whatever base chain.
fn of_hooks(dump: &Dump, faults: &mut Vec<Fault>) {
    let base = |hook: &str| {
        let of = dump.hooks.iter().filter(move |(_, (known, _))| known == hook);
        of.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    for (hook, usual, to, kind, detail) in [
        (
            "prerouting",
            "nat-prerouting",
            "services",
            Kind::Jump,
            "pods' and outside packets to Services are not translated",
        ),
        (
            "output",
            "nat-output",
            "services",
            Kind::Jump,
            "the node's own packets to Services are not translated",
        ),
        (
            "postrouting",
            "nat-postrouting",
            "masquerading",
            Kind::Masquerade,
            "marked packets keep their source, so replies find no way back",
        ),
        (
            "forward",
            "filter-forward",
            "service-endpoints-check",
            Kind::Jump,
            "Services without endpoints do not refuse pods",
        ),
        (
            "output",
            "filter-output",
            "service-endpoints-check",
            Kind::Jump,
            "Services without endpoints do not refuse the node",
        ),
        (
            "input",
            "filter-input",
            "service-endpoints-check",
            Kind::Jump,
            "outside addresses without endpoints refuse nobody",
        ),
        (
            "input",
            "filter-input",
            "nodeport-endpoints-check",
            Kind::Jump,
            "node ports without endpoints refuse nobody",
        ),
        (
            "forward",
            "filter-forward",
            "cluster-ips-check",
            Kind::Jump,
            "what is not translated times out where it should be refused",
        ),
        (
            "output",
            "filter-output",
            "cluster-ips-check",
            Kind::Jump,
            "what is not translated times out where it should be refused",
        ),
        (
            "prerouting",
            "filter-prerouting-pre-dnat",
            "firewall-check",
            Kind::Jump,
            "everybody may come to balancers' addresses",
        ),
        (
            "output",
            "filter-output-pre-dnat",
            "firewall-check",
            Kind::Jump,
            "the node itself may come to balancers' addresses",
        ),
    ] {
        let leads =
            base(hook).into_iter().any(|chain| rules(dump, chain).iter().any(|rule| goes_to(rule, to)));
        if !leads {
            faults.push(missing(kind, to, usual, detail));
        }
    }
}

/// What stands in the chains that every table has and is not the proxy's. The chains that lead to translation are
/// followed for each address, which tells the same there.
fn of_strangers(dump: &Dump, faults: &mut Vec<Fault>) {
    let fault = |place: Place, object: &str, detail: &str| Fault {
        difference: Difference::Extra,
        place,
        ..missing(Kind::Foreign, object, "", detail)
    };
    for name in &dump.drops_rest {
        let detail = "the chain's policy drops what no rule decides; the proxy's is to accept";
        faults.push(fault(Place::within(super::TABLE, name), "policy drop", detail));
    }
    let is_plain = |rule: &Rule| {
        rule.source.is_none()
            && rule.interface.is_none()
            && rule.not_from.is_empty()
            && rule.known_client.is_none()
            && !rule.from_node
            && !rule.not_new
            && !rule.is_odd
            && rule.protocol.is_none()
            && rule.port.is_none()
    };
    let is_for_all =
        |rule: &Rule| is_plain(rule) && rule.destination.is_none() && rule.to_set.is_none() && !rule.to_node;
    let hooks =
        dump.hooks.iter().filter(|(_, (hook, _))| hook != "prerouting").map(|(name, _)| name.as_str());
    let checks = ["service-endpoints-check", "nodeport-endpoints-check", "cluster-ips-check", "reject-chain"];
    for name in hooks.chain(checks) {
        for (index, rule) in rules(dump, name).iter().enumerate() {
            let is_proxys = match (&rule.act, name) {
                (Act::Verdict(Verdict::Jump(to)), _) if dump.hooks.contains_key(name) => {
                    is_for_all(rule)
                        && (checks.contains(&to.as_str())
                            || ["services", "masquerading", "firewall-check"].contains(&to.as_str()))
                }
                (Act::Verdict(Verdict::Reject), "reject-chain")
                | (Act::Lookup(_), "service-endpoints-check") => is_for_all(rule),
                (Act::Verdict(Verdict::Reject), "cluster-ips-check") => {
                    is_plain(rule) && rule.to_set == Some((false, "cluster-ips".to_owned()))
                }
                // Addresses of the Services' range that nobody has.
                (Act::Verdict(Verdict::Drop), "cluster-ips-check") => {
                    is_plain(rule) && matches!(rule.destination, Some((false, _)))
                }
                (Act::Lookup(_), "nodeport-endpoints-check") => {
                    let set = rule.to_set.as_ref().map(|(not, set)| (*not, set.as_str()));
                    is_plain(rule) && matches!(set, None | Some((false, NODE_PORT_IPS)))
                }
                _ => false,
            };
            if !is_proxys {
                let detail =
                    "a rule that no proxy writes there; what it does to packets of Services was not examined";
                let place = in_chain(name, index + 1, rule);
                faults.push(Fault { kind: Kind::Unread, ..fault(place, "rule", detail) });
            }
        }
    }
    // Before 1.36 there is a return of what is not marked.
    let ends = |rule: &Rule| matches!(rule.act, Act::Verdict(_)) && !rule.is_odd;
    for (index, rule) in rules(dump, "masquerading").iter().enumerate().filter(|(_, rule)| ends(rule)) {
        let detail = "a rule that no proxy writes there keeps packets from being masqueraded";
        faults.push(fault(in_chain("masquerading", index + 1, rule), "rule", detail));
    }
    of_priorities(dump, faults);
    // Packets to a port that a Service lacks are refused; those to addresses that no Service has are dropped after it.
    let check = rules(dump, "cluster-ips-check");
    let drop = check.iter().position(|rule| rule.act == Act::Verdict(Verdict::Drop));
    let refusal = check.iter().enumerate().find(|(_, rule)| rule.act == Act::Verdict(Verdict::Reject));
    if let Some((index, rule)) = refusal.filter(|(index, _)| drop.is_some_and(|drop| drop < *index)) {
        let detail = "a drop before it takes these packets: what is not translated times out where it should be refused";
        faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::End,
            ..fault(in_chain("cluster-ips-check", index + 1, rule), "reject", detail)
        });
    }
}

/// When the kernel asks each base chain: source ranges before translation, ends after it.
fn of_priorities(dump: &Dump, faults: &mut Vec<Fault>) {
    const TRANSLATION: i64 = -100;
    let mut fault = |name: &String, kind: Kind, detail: &str| {
        faults.push(Fault {
            difference: Difference::Wrong,
            place: Place::within(super::TABLE, name),
            ..missing(kind, name, "", detail)
        });
    };
    for (name, (_, priority)) in &dump.hooks {
        let leads = |to: &str| rules(dump, name).iter().any(|rule| goes_to(rule, to));
        let usual = match name.as_str() {
            "nat-prerouting" | "nat-output" => Some(TRANSLATION),
            "nat-postrouting" => Some(100),
            _ => None,
        };
        if usual.is_some_and(|usual| usual != *priority) {
            fault(name, Kind::Jump, "the chain is asked at another priority than the proxy's");
        } else if leads("firewall-check") && *priority >= TRANSLATION {
            let detail = "the chain is asked after translation, when no packet is to a balancer's address any more: everybody may come";
            fault(name, Kind::SourceRange, detail);
        } else if ["service-endpoints-check", "nodeport-endpoints-check", "cluster-ips-check"]
            .into_iter()
            .any(leads)
            && *priority <= TRANSLATION
        {
            let detail = "the chain is asked before translation: it ends packets that Services would take";
            fault(name, Kind::End, detail);
        }
    }
}
