//! The rules that kube-proxy's iptables mode writes, as `iptables-restore` takes them.
//!
//! Invariant: what is written here are the forms that a dump is compared with ([`super::wanted`], [`super::shared`]), those
//! of kube-proxy 1.36, without its canaries and kubelet's chains. Written from the description of the rules, for labs and
//! for comparison; it is not kube-proxy.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::dump::{Not, Rule};
use super::form::{Form, Presence};
use super::lists::{Detector, Flags, MARK, Marked, NODE_PORTS};
use super::{chain, shared, wanted};
use crate::model::cluster::Cluster;
use crate::model::service::AddressType;
use crate::service::expected::{Action, ExpectedPort};
use crate::service::fault::Kind;

/// What rules depend on beside the Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    /// `--cluster-cidr` of this family: who is a pod. Without it nobody is known to be one.
    pub pod_cidr: Option<IpNet>,
    /// The bit that asks for masquerading.
    pub mark: u32,
}

impl ProxyOptions {
    /// What a cluster's proxies are told of a family: the smallest net that all nodes' pod CIDRs are in, if any.
    #[must_use]
    pub fn of(cluster: &Cluster, family: AddressType) -> Self {
        let nets = cluster.nodes.values().flat_map(|node| &node.pod_cidrs);
        let nets = nets.filter(|net| AddressType::of(net.addr()) == family).copied();
        let pod_cidr = nets.reduce(|wide, net| {
            let wider = std::iter::successors(Some(wide), IpNet::supernet);
            wider.into_iter().find(|wide| wide.contains(&net)).unwrap_or(wide)
        });
        Self { pod_cidr, ..Self::default() }
    }
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self { pod_cidr: None, mark: 0x4000 }
    }
}

/// What rules say of themselves, so that nobody takes them for the proxy's own.
pub const WRITTEN_BY: &str = "written by netlab in the shape of kube-proxy";

/// Rules of a table, chain by chain.
#[derive(Default)]
struct Lines {
    chains: Vec<String>,
    known: BTreeSet<String>,
    rules: Vec<String>,
}

impl Lines {
    fn chain(&mut self, name: &str) {
        if self.known.insert(name.to_owned()) {
            self.chains.push(name.to_owned());
        }
    }

    fn rule(&mut self, chain: &str, comment: &str, rule: &Rule) {
        self.chain(chain);
        self.rules.push(format!("-A {chain}{}", words(comment, rule)));
    }

    fn rules<'f>(&mut self, chain: &str, comment: &str, forms: impl IntoIterator<Item = &'f Form>) {
        self.chain(chain);
        for form in forms {
            self.rule(chain, comment, &form.rule);
        }
    }

    fn finish(self, table: &str) -> String {
        let mut text = format!("*{table}\n");
        for chain in self.chains {
            let built_in = matches!(&*chain, "PREROUTING" | "OUTPUT" | "POSTROUTING" | "INPUT" | "FORWARD");
            // Writing to a text does not fail.
            let _ = writeln!(text, ":{chain} {} [0:0]", if built_in { "ACCEPT" } else { "-" });
        }
        for rule in self.rules {
            text += &rule;
            text.push('\n');
        }
        text + "COMMIT\n"
    }
}

/// Writes the tables of one family.
#[must_use]
pub fn emit(ports: &[ExpectedPort], options: &ProxyOptions) -> String {
    let flags = options.flags();
    let mut tables = Tables::default();
    for (table, from, target, new) in shared::JUMPS {
        let lines = tables.of(table);
        lines.chain(target);
        lines.rule(from, "", &shared::jump(target, new));
    }
    for (of, forms) in shared::chains(flags.bit) {
        let comment = if of.chain == MARK { WRITTEN_BY } else { "" };
        tables.of(of.table).rules(of.chain, comment, &forms);
    }
    tables.nat.chain(NODE_PORTS);
    for port in ports {
        for ((table, list), form) in wanted::entries(port) {
            if form.presence != Presence::Optional {
                tables.of(table).rule(list, &comment(port, &form), &form.rule);
            }
        }
        chains(&mut tables.nat, port, &flags);
    }
    // Must be last: it takes every address of the node.
    tables.nat.rule("KUBE-SERVICES", "", &Rule { to_node: true, ..Rule::to(NODE_PORTS) });
    tables.nat.finish("nat") + &tables.filter.finish("filter")
}

#[derive(Default)]
struct Tables {
    nat: Lines,
    filter: Lines,
}

impl Tables {
    fn of(&mut self, table: &str) -> &mut Lines {
        if table == "nat" { &mut self.nat } else { &mut self.filter }
    }
}

impl ProxyOptions {
    fn flags(&self) -> Flags {
        let pods = self.pod_cidr.map(Detector::Net);
        let marked = pods.clone().map_or(Marked::Nobody, Marked::OfOthers);
        Flags { marked, pods, bit: self.mark }
    }
}

/// What an entry of a list says of itself: it begins with the service port.
fn comment(port: &ExpectedPort, form: &Form) -> String {
    let name = &port.name;
    match form.rule.target.as_deref() {
        Some("REJECT") => format!("{name} has no endpoints"),
        Some("DROP") if form.kind == Kind::End => format!("{name} has no local endpoints"),
        _ => name.to_string(),
    }
}

/// The Service's own chains.
fn chains(nat: &mut Lines, port: &ExpectedPort, flags: &Flags) {
    let name = port.name.to_string();
    let firewall = wanted::firewall(port);
    for (chain, forms) in wanted::external(port, flags).iter().chain(&firewall) {
        nat.rules(chain, &name, forms.iter().filter(|form| form.presence != Presence::Optional));
    }
    if let Some((chain, _)) = firewall {
        // It counts alone.
        let comment = format!("other traffic to {name} will be dropped by KUBE-PROXY-FIREWALL");
        nat.rule(&chain, &comment, &Rule::default());
    }
    for (chain, endpoints, action) in [
        (chain::cluster(&port.name), &port.cluster, Action::Cluster),
        (chain::local(&port.name), &port.local, Action::Local),
    ] {
        if !endpoints.is_empty() {
            nat.rules(&chain, &name, &wanted::service(port, endpoints, action, flags));
            choices(nat, &chain, port, endpoints);
        }
    }
    let mut all: Vec<&SocketAddr> = port.cluster.iter().chain(&port.local).collect();
    all.sort_by_cached_key(ToString::to_string);
    all.dedup();
    for endpoint in all {
        let chain = chain::endpoint(&port.name, *endpoint);
        nat.rules(&chain, &name, &wanted::endpoint(port, &chain, *endpoint));
    }
}

/// Endpoint i of n is taken with probability 1/(n-i), so that each gets 1/n; the last unconditionally.
fn choices(nat: &mut Lines, chain: &str, port: &ExpectedPort, endpoints: &[SocketAddr]) {
    for (index, endpoint) in endpoints.iter().enumerate() {
        let left = endpoints.len() - index;
        #[expect(clippy::cast_precision_loss, reason = "far fewer endpoints than 2^52")]
        let probability = (left > 1).then(|| 1.0 / left as f64);
        let choice = Rule { probability, ..Rule::to(&chain::endpoint(&port.name, *endpoint)) };
        nat.rule(chain, &format!("{} -> {endpoint}", port.name), &choice);
    }
}

/// A rule as `iptables-restore` takes it, each word with a space before it.
fn words(comment: &str, rule: &Rule) -> String {
    let mut text = String::new();
    let mut add = |words: Option<String>| text.extend(words.map(|words| format!(" {words}")));
    let not = |negated: bool| if negated { "! " } else { "" };
    let net = |option: &str, net: &Option<Not<IpNet>>| {
        net.as_ref().map(|net| format!("{}{option} {}", not(net.negated), net.value))
    };
    add(net("-s", &rule.source));
    add(net("-d", &rule.destination));
    add(rule.protocol.map(|protocol| format!("-p {}", protocol.lower())));
    add(Some(rule.other.join(" ")).filter(|words| !words.is_empty()));
    add((!comment.is_empty()).then(|| format!("-m comment --comment \"{comment}\"")));
    add(rule.from_node.then(|| "-m addrtype --src-type LOCAL".to_owned()));
    add(rule.to_node.then(|| "-m addrtype --dst-type LOCAL".to_owned()));
    add(rule.states.as_ref().map(|of| format!("-m conntrack {}--ctstate {}", not(of.negated), of.value)));
    add(rule.mark.as_ref().map(|mark| format!("-m mark {}--mark {}", not(mark.negated), mark.value)));
    if let Some(recent) = &rule.recent {
        add(Some(format!("-m recent --name {}", recent.name)));
        add(recent.set.then(|| "--set".to_owned()));
        add(recent.check.then(|| "--rcheck".to_owned()));
        add(recent.seconds.map(|seconds| format!("--seconds {seconds}")));
        add(recent.reap.then(|| "--reap".to_owned()));
    }
    add(rule.probability.map(|share| format!("-m statistic --mode random --probability {share:.11}")));
    let of_protocol = rule.protocol.map(|protocol| format!("-m {}", protocol.lower()));
    add(of_protocol.zip(rule.destination_port).map(|(of, port)| format!("{of} --dport {port}")));
    add(rule.target.as_ref().map(|target| format!("-j {target}")));
    // As kube-proxy asks where the kernel can; a dump with it or without means the same.
    add((rule.target.as_deref() == Some("MASQUERADE")).then(|| "--random-fully".to_owned()));
    add(rule.set_mark.as_ref().map(|mark| format!("--set-xmark {mark}")));
    add(rule.to_destination.map(|to| format!("--to-destination {to}")));
    text
}
