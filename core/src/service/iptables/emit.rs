//! The rules that kube-proxy's iptables mode writes, as `iptables-restore` takes them.
//!
//! Invariant: what is written here is what [`super::faults`] finds no fault with; it is in the shape of the rules of
//! kube-proxy 1.36 (`pkg/proxy/iptables/proxier.go`), without its canaries, its chains for health checks and
//! kubelet's own. Written from the description of the rules, for labs and for comparison; it is not kube-proxy.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::chain;
use crate::model::cluster::Cluster;
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort};

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

/// Jumps from the kernel's chains: (table, chain, target, only for new connections).
pub(super) const JUMPS: [(&str, &str, &str, bool); 13] = [
    ("nat", "PREROUTING", "KUBE-SERVICES", false),
    ("nat", "OUTPUT", "KUBE-SERVICES", false),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", false),
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", true),
    ("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", true),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", true),
    ("filter", "INPUT", "KUBE-NODEPORTS", false),
    ("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", true),
    ("filter", "FORWARD", "KUBE-FORWARD", false),
    ("filter", "FORWARD", "KUBE-SERVICES", true),
    ("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", true),
    ("filter", "OUTPUT", "KUBE-SERVICES", true),
    ("filter", "OUTPUT", "KUBE-FIREWALL", false),
];

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

    fn rule(&mut self, chain: &str, rule: &str) {
        self.chain(chain);
        self.rules.push(format!("-A {chain} {rule}"));
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
    let (mut nat, mut filter) = (Lines::default(), Lines::default());
    for (table, from, target, new) in JUMPS {
        let lines = if table == "nat" { &mut nat } else { &mut filter };
        lines.chain(target);
        let state = if new { "-m conntrack --ctstate NEW " } else { "" };
        lines.rule(from, &format!("{state}-j {target}"));
    }
    nat.rule(
        "KUBE-MARK-MASQ",
        &format!("-m comment --comment \"{WRITTEN_BY}\" -j MARK --set-xmark {0:#x}/{0:#x}", options.mark),
    );
    nat.rule("KUBE-POSTROUTING", &format!("-m mark ! --mark {0:#x}/{0:#x} -j RETURN", options.mark));
    nat.rule("KUBE-POSTROUTING", &format!("-j MARK --set-xmark {0:#x}/0x0", options.mark));
    nat.rule("KUBE-POSTROUTING", "-j MASQUERADE --random-fully");
    filter.rule("KUBE-FORWARD", "-m conntrack --ctstate INVALID -j DROP");
    filter.rule("KUBE-FORWARD", &format!("-m mark --mark {0:#x}/{0:#x} -j ACCEPT", options.mark));
    filter.rule("KUBE-FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
    nat.chain("KUBE-NODEPORTS");
    for port in ports {
        for frontend in &port.frontends {
            entry(&mut nat, &mut filter, port, frontend);
        }
        chains(&mut nat, port, options);
    }
    // Must be last: it takes every address of the node.
    nat.rule("KUBE-SERVICES", "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS");
    nat.finish("nat") + &filter.finish("filter")
}

/// The rules by which packets to one address find the Service's chains, or their end.
fn entry(nat: &mut Lines, filter: &mut Lines, port: &ExpectedPort, frontend: &ExpectedFrontend) {
    let protocol = frontend.key.protocol.lower();
    let number = frontend.key.port;
    let to = match frontend.key.address {
        Some(address) => format!("-d {} ", IpNet::from(address)),
        None => String::new(),
    };
    let what = match frontend.kind {
        RouteKind::ClusterIp => " cluster IP",
        RouteKind::ExternalIp => " external IP",
        RouteKind::LoadBalancer => " loadbalancer IP",
        RouteKind::NodePort | RouteKind::FromThisNode => "",
    };
    let matches = |comment: &str, local: &str| {
        format!("{to}-p {protocol} -m comment --comment \"{comment}\" {local}-m {protocol} --dport {number}")
    };
    let balance = |target: String| format!("{} -j {target}", matches(&format!("{}{what}", port.name), ""));
    let internal = frontend.kind == RouteKind::ClusterIp;
    let (chain_of_ends, local) = match frontend.kind {
        RouteKind::ClusterIp => ("KUBE-SERVICES", ""),
        RouteKind::NodePort => ("KUBE-EXTERNAL-SERVICES", "-m addrtype --dst-type LOCAL "),
        _ => ("KUBE-EXTERNAL-SERVICES", ""),
    };
    match frontend.action {
        Action::Refuse => {
            let rule = matches(&format!("{} has no endpoints", port.name), local);
            filter.rule(chain_of_ends, &format!("{rule} -j REJECT"));
        }
        Action::Drop => {
            let rule = matches(&format!("{} has no local endpoints", port.name), local);
            filter.rule(chain_of_ends, &format!("{rule} -j DROP"));
        }
        Action::Cluster | Action::Local => {}
    }
    if internal {
        match frontend.action {
            Action::Cluster => nat.rule("KUBE-SERVICES", &balance(chain::cluster(&port.name))),
            Action::Local => nat.rule("KUBE-SERVICES", &balance(chain::local(&port.name))),
            Action::Refuse | Action::Drop => {}
        }
    } else if port.has_endpoints() {
        // Also where the policy leaves nothing for clients outside: the node's own pods go on through it.
        let target = if frontend.kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty() {
            let rule = matches(
                &format!("{} traffic not accepted by {}", port.name, chain::firewall(&port.name)),
                "",
            );
            filter.rule("KUBE-PROXY-FIREWALL", &format!("{rule} -j DROP"));
            chain::firewall(&port.name)
        } else {
            chain::external(&port.name)
        };
        let from = if frontend.kind == RouteKind::NodePort { "KUBE-NODEPORTS" } else { "KUBE-SERVICES" };
        nat.rule(from, &balance(target));
    }
}

/// The Service's own chains.
fn chains(nat: &mut Lines, port: &ExpectedPort, options: &ProxyOptions) {
    let name = &port.name;
    let is_external = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
    if is_external && port.has_endpoints() {
        external(nat, port, options);
    }
    let internal = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    for (chain, endpoints, action) in [
        (chain::cluster(name), &port.cluster, Action::Cluster),
        (chain::local(name), &port.local, Action::Local),
    ] {
        if endpoints.is_empty() {
            continue;
        }
        nat.chain(&chain);
        if let (Some(frontend), Some(pods)) = (internal, options.pod_cidr)
            && frontend.action == action
            && let Some(address) = frontend.key.address
        {
            let (protocol, number) = (frontend.key.protocol.lower(), frontend.key.port);
            nat.rule(
                &chain,
                &format!(
                    "! -s {pods} -d {} -p {protocol} -m comment --comment \"{name} cluster IP\" -m {protocol} --dport {number} -j KUBE-MARK-MASQ",
                    IpNet::from(address)
                ),
            );
        }
        balance(nat, &chain, port, endpoints);
    }
    let mut all: Vec<&SocketAddr> = port.cluster.iter().chain(&port.local).collect();
    all.sort_by_cached_key(ToString::to_string);
    all.dedup();
    for endpoint in all {
        endpoint_chain(nat, port, *endpoint);
    }
}

fn external(nat: &mut Lines, port: &ExpectedPort, options: &ProxyOptions) {
    let name = &port.name;
    let chain = chain::external(name);
    nat.chain(&chain);
    if port.policy.external_local {
        if let Some(pods) = options.pod_cidr {
            nat.rule(
                &chain,
                &format!(
                    "-s {pods} -m comment --comment \"pod traffic for {name} external destinations\" -j {}",
                    chain::cluster(name)
                ),
            );
        }
        let local = |comment: &str, target: &str| {
            format!(
                "-m comment --comment \"{comment} LOCAL traffic for {name} external destinations\" -m addrtype --src-type LOCAL -j {target}"
            )
        };
        nat.rule(&chain, &local("masquerade", "KUBE-MARK-MASQ"));
        nat.rule(&chain, &local("route", &chain::cluster(name)));
        if !port.local.is_empty() {
            nat.rule(&chain, &format!("-j {}", chain::local(name)));
        }
    } else {
        nat.rule(
            &chain,
            &format!("-m comment --comment \"masquerade traffic for {name} external destinations\" -j KUBE-MARK-MASQ"),
        );
        nat.rule(&chain, &format!("-j {}", chain::cluster(name)));
    }
    if !port.source_ranges.is_empty() {
        let firewall = chain::firewall(name);
        // The node's own packets may come from the balancer's address.
        let own = port.balancers().map(IpNet::from).filter(|_| port.admits_balancers() == Some(true));
        for range in port.source_ranges.iter().copied().chain(own) {
            nat.rule(
                &firewall,
                &format!("-s {range} -m comment --comment \"{name} loadbalancer IP\" -j {chain}"),
            );
        }
        nat.rule(
            &firewall,
            &format!(
                "-m comment --comment \"other traffic to {name} will be dropped by KUBE-PROXY-FIREWALL\""
            ),
        );
    }
}

/// Endpoint i of n is taken with probability 1/(n-i), so that each gets 1/n; the last unconditionally.
fn balance(nat: &mut Lines, chain: &str, port: &ExpectedPort, endpoints: &[SocketAddr]) {
    let name = &port.name;
    for endpoint in endpoints.iter().filter(|_| port.affinity.is_some()) {
        let target = chain::endpoint(name, *endpoint);
        nat.rule(
            chain,
            &format!(
                "-m comment --comment \"{name} -> {endpoint}\" -m recent --name {target} --rcheck --seconds {} --reap -j {target}",
                port.affinity.unwrap_or_default()
            ),
        );
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let left = endpoints.len() - index;
        let share = if left > 1 {
            #[expect(clippy::cast_precision_loss, reason = "far fewer endpoints than 2^52")]
            let probability = 1.0 / left as f64;
            format!("-m statistic --mode random --probability {probability:.11} ")
        } else {
            String::new()
        };
        let target = chain::endpoint(name, *endpoint);
        nat.rule(chain, &format!("-m comment --comment \"{name} -> {endpoint}\" {share}-j {target}"));
    }
}

fn endpoint_chain(nat: &mut Lines, port: &ExpectedPort, endpoint: SocketAddr) {
    let (name, protocol) = (&port.name, port.name.protocol.lower());
    let chain = chain::endpoint(name, endpoint);
    let itself = IpNet::from(endpoint.ip());
    nat.rule(&chain, &format!("-s {itself} -m comment --comment \"{name}\" -j KUBE-MARK-MASQ"));
    let sticky =
        if port.affinity.is_some() { format!("-m recent --name {chain} --set ") } else { String::new() };
    nat.rule(
        &chain,
        &format!(
            "-p {protocol} -m comment --comment \"{name}\" {sticky}-m {protocol} -j DNAT --to-destination {endpoint}"
        ),
    );
}
