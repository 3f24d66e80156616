//! `netlab service trace`: a node's own rules, followed and compared.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::endpoint_ref::{PortName, PortRef};
use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::AddressType;
use netlab_core::service::comparison::{Comparison, Given, Ports, compare};
use netlab_core::service::conntrack::{ServiceConntrack, judge};
use netlab_core::service::expected::{ExpectedPort, expected, expected_of};
use netlab_core::service::iptables::ProxyOptions;
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use netlab_core::service::{families, left_out, not_proxied, unknown_hints, unknown_slices};

use serde::Serialize;

use super::{named, rules};
use crate::args::globals::Globals;
use crate::args::service::Trace;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::service_trace::render;
use crate::output::terminal::Terminal;
use crate::output::{service_compare, service_conntrack};

/// Answers.
pub(crate) fn run(args: &Trace, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let cluster = &input.loaded.cluster;
    let key = named::service(&args.service.endpoint, globals, cluster)?;
    let port = args.service.port.as_ref();
    let question = Question { cluster, key: &key, port, node: args.node.as_deref() };
    let evidence = rules::evidence(args)?;
    if evidence.rules.is_empty() && evidence.connections.is_none() && !args.compare {
        return Err(Failure::unreadable("no rules of a node were given").hint(
            "name some with `--iptables-save`, `--nft`, `--cilium` or `--node-netns`, or predict them with `--compare`",
        ));
    }
    let mut not_examined = input.not_examined;
    if let Some(service) = cluster.services.get(&key) {
        not_examined.extend(unknown_slices(cluster, &key, service));
        not_examined.extend(left_out(cluster, &key, service));
        not_examined.extend(unknown_hints(cluster, &key, service));
    }
    let conntrack = match &evidence.connections {
        Some((source, entries)) => Some(judge(source, entries, &question.everywhere()?)),
        None => None,
    };
    // Without being asked for, connections are worth a word only where they can be stale.
    let conntrack = conntrack.filter(|conntrack| {
        args.conntrack.is_some() || conntrack.ports.iter().any(|port| port.protocol == Protocol::Udp.as_str())
    });
    let flows = || conntrack.as_ref().map(service_conntrack::render);
    let mut broken =
        conntrack.iter().flat_map(|conntrack| &conntrack.ports).any(|port| !port.stale.is_empty());
    if args.compare {
        let (comparison, left_out) = question.compare(&evidence.rules)?;
        not_examined.extend(left_out);
        not_examined.extend(comparison.not_examined.iter().cloned());
        let mut read = comparison.columns.iter().filter(|column| column.source.is_some());
        broken |= read.any(|column| column.ports.iter().any(|port| port.trace.status == Status::Broken));
        let answer = Answer { rules: &comparison, conntrack: conntrack.as_ref() };
        let envelope = Envelope::new("ServiceComparison", answer, not_examined.clone());
        terminal.answer(&envelope, |terminal| {
            let text = service_compare::render(&comparison, terminal.charset);
            told(&not_examined, text + &flows().map(|flows| format!("\n{flows}")).unwrap_or_default())
        })?;
    } else if evidence.rules.is_empty() {
        let envelope = Envelope::new("ServiceConntrack", conntrack.as_ref(), not_examined.clone());
        terminal.answer(&envelope, |_| told(&not_examined, flows().unwrap_or_default()))?;
    } else {
        let (trace, source) = question.trace(&evidence.rules, args.node_netns.is_some())?;
        broken |= trace.ports.iter().any(|port| port.status == Status::Broken);
        not_examined.extend(trace.not_examined.iter().cloned());
        let answer = Answer { rules: &trace, conntrack: conntrack.as_ref() };
        let envelope = Envelope::new("ServiceTrace", answer, not_examined.clone());
        terminal.answer(&envelope, |terminal| {
            let text = render(&trace, &source, terminal.charset);
            told(&not_examined, text + &flows().map(|flows| format!("\n{flows}")).unwrap_or_default())
        })?;
    }
    Ok(match (not_examined.is_empty(), broken) {
        (false, _) => Exit::CannotTell,
        (true, true) => Exit::No,
        (true, false) => Exit::Yes,
    })
}

fn told(not_examined: &[String], text: String) -> String {
    not_examined.iter().fold(text, |text, what| text + &format!("not examined: {what}\n"))
}

/// What rules say, and connections if there are any.
#[derive(Serialize)]
struct Answer<'a, T> {
    #[serde(flatten)]
    rules: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    conntrack: Option<&'a ServiceConntrack>,
}

/// Which Service is asked for, and on which node.
#[derive(Clone, Copy)]
struct Question<'a> {
    cluster: &'a Cluster,
    key: &'a ObjectKey,
    port: Option<&'a PortRef>,
    node: Option<&'a str>,
}

impl Question<'_> {
    /// The trace through one proxy's rules, both families of them if both were given; `any` when a node may have the
    /// rules of several, of which those that fit best are taken for the ones in use.
    fn trace(&self, given: &[Given], any: bool) -> Result<(ServiceTrace, String), Failure> {
        let mut modes: BTreeMap<&str, Vec<&Given>> = BTreeMap::new();
        for one in given {
            // Rules of the kernel's older interface are another proxy's than those of the newer.
            let older = any && one.source.contains("-legacy-");
            modes.entry(if older { "iptables-legacy" } else { one.rules.mode() }).or_default().push(one);
        }
        if modes.len() > 1 && !any {
            let modes: Vec<&str> = modes.into_keys().collect();
            return Err(Failure::unreadable(format!("rules of {} were given", modes.join(" and ")))
                .hint("give those of one proxy, or add `--compare`"));
        }
        let mut traced: Vec<(ServiceTrace, String)> = Vec::new();
        for given in modes.into_values() {
            let mut whole: Option<ServiceTrace> = None;
            for one in &given {
                let (node, ports) = self.ports(one.rules.family(), same_everywhere(&one.rules))?;
                let mut part = trace(&one.rules, &ports, &node);
                if !part.ports.is_empty() {
                    part.not_examined.extend(one.beside.iter().cloned());
                }
                match &mut whole {
                    Some(whole) => whole.merge(part),
                    None => whole = Some(part),
                }
            }
            let source = given.first().map(|given| given.source.clone()).unwrap_or_default();
            traced.extend(whole.filter(|whole| !whole.ports.is_empty()).map(|whole| (whole, source)));
        }
        traced.sort_by_key(|(trace, _)| trace.faults());
        let mut traced = traced.into_iter();
        let Some((mut trace, source)) = traced.next() else {
            let families: Vec<&str> = given.iter().map(|one| one.rules.family().as_str()).collect();
            return Err(self.without_rules(&format!(" in {}", families.join(" and "))));
        };
        for (left, _) in traced {
            trace.leftover(&left);
        }
        Ok((trace, source))
    }

    /// Why there is nothing to follow.
    fn without_rules(&self, place: &str) -> Failure {
        let what = format!("no proxy has rules for {}", self.key);
        match self.cluster.services.get(self.key).and_then(not_proxied) {
            Some(why) => Failure::unreadable(format!("{what}: {why}")),
            None => Failure::unreadable(format!("{what}{place}")).hint("`netlab service endpoints` says why"),
        }
    }

    /// The ports in all families, for what is no matter of nodes.
    fn everywhere(&self) -> Result<Vec<ExpectedPort>, Failure> {
        let service = self.cluster.services.get(self.key);
        let families = service.map(|service| families(self.cluster, service)).unwrap_or_default();
        let first = self.cluster.nodes.keys().next().map(String::as_str);
        let anywhere = Question { node: self.node.or(first), ..*self };
        let mut ports = Vec::new();
        for family in families {
            ports.extend(anywhere.ports(family, true)?.1);
        }
        Ok(ports)
    }

    /// All kinds of proxies side by side, and which rules have no place there.
    fn compare(&self, given: &[Given]) -> Result<(Comparison, Vec<String>), Failure> {
        let mut read: BTreeSet<AddressType> = given.iter().map(|given| given.rules.family()).collect();
        if read.is_empty() {
            let service = self.cluster.services.get(self.key);
            read.extend(service.map(|service| families(self.cluster, service)).unwrap_or_default());
        }
        let mut by_family = Vec::new();
        let mut node = String::new();
        let same = given.iter().all(|given| same_everywhere(&given.rules));
        for family in read {
            let (of, asked) = self.ports(family, same)?;
            if !asked.is_empty() {
                let all = expected(self.cluster, &of, family);
                by_family.push((family, asked, all, ProxyOptions::of(self.cluster, family)));
            }
            node = of;
        }
        if by_family.is_empty() {
            return Err(self.without_rules(""));
        }
        let ports: Vec<Ports<'_>> = by_family
            .iter()
            .map(|(family, asked, all, options)| Ports { family: *family, asked, all, options })
            .collect();
        let shown = |given: &&Given| by_family.iter().any(|(family, ..)| *family == given.rules.family());
        let others = given.iter().filter(|given| !shown(given));
        let family = |given: &Given| match given.rules.family() {
            AddressType::Ipv4 => "IPv4",
            AddressType::Ipv6 => "IPv6",
            AddressType::Fqdn => "names",
        };
        let left_out = others
            .map(|given| {
                format!("{}: rules of {}, in which {} has no port", given.source, family(given), self.key)
            })
            .collect();
        Ok((compare(given, &ports, &node), left_out))
    }

    /// What the node's proxy should have for the Service, or for one port of it, in a family; `same` when it is no
    /// matter for these rules which endpoints are on the node.
    fn ports(&self, family: AddressType, same: bool) -> Result<(String, Vec<ExpectedPort>), Failure> {
        let of = |node: &str| expected_of(self.cluster, self.key, node, family);
        let (node, mut ports) = match self.node {
            Some(node) if self.cluster.nodes.contains_key(node) => (node.to_owned(), of(node)),
            Some(node) => {
                return Err(Failure::unreadable(format!("`--node {node}`: no such Node in the input")));
            }
            None => {
                let mut nodes = self.cluster.nodes.keys();
                let first = nodes.next().cloned().unwrap_or_default();
                // Whose addresses the rules should know is not known where there are several nodes.
                let anywhere = self.cluster.nodes.len() > 1;
                let of = |node: &str| {
                    let mut ports = of(node);
                    ports.iter_mut().filter(|_| anywhere).for_each(|port| port.addresses.clear());
                    ports
                };
                let ports = of(&first);
                let placeless = |mut ports: Vec<ExpectedPort>| {
                    for port in ports.iter_mut().filter(|_| same) {
                        port.on_node.clear();
                        port.on_host.clear();
                    }
                    ports
                };
                let here = placeless(ports.clone());
                if let Some(other) = nodes.find(|other| placeless(of(other)) != here) {
                    let what = format!("{} is another one on {first} than on {other}", self.key);
                    return Err(Failure::unreadable(what).hint("say with `--node` whose rules these are"));
                }
                (first, ports)
            }
        };
        if let Some(port) = self.port.filter(|_| !ports.is_empty()) {
            let known: Vec<String> = ports.iter().map(|expected| expected.name.to_string()).collect();
            ports.retain(|expected| {
                port.protocol.is_none_or(|protocol| protocol == expected.name.protocol)
                    && match &port.port {
                        PortName::Name(name) => expected.name.port == *name,
                        PortName::Number(number) => {
                            expected.frontends.iter().any(|frontend| frontend.key.port == *number)
                        }
                    }
            });
            if ports.is_empty() {
                return Err(Failure::unreadable(format!("{} has no port `{port}`", self.key))
                    .hint(format!("it has {}", known.join(", "))));
            }
        }
        Ok((node, ports))
    }
}

/// Which endpoints are on the node is a matter of nftables' rules, for packets to oneself, and of rules at INPUT, which
/// only packets to the node itself meet.
fn same_everywhere(rules: &Rules) -> bool {
    match rules {
        Rules::Nftables(_) => false,
        Rules::Iptables(dump) => !netlab_core::service::iptables::decides_at_input(dump),
        Rules::Cilium(_) => true,
    }
}
