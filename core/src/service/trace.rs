//! The answer of `netlab service trace`: a packet followed through a proxy's rules, and what is not as it should be.
//!
//! Invariant: one entry per service port and family; a port is `ok` exactly when no fault of its own or of what all
//! Services share was found; the symptom is that of the worst of its addresses.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::expected::{Action, ExpectedPort};
use super::fault::{Difference, Fault, Kind, Place};
use super::follow::{Client, Hop, Open, Symptom, Worse};
use super::rules::Read;
pub use super::rules::Rules;
use super::{RouteKind, nftables};

/// What was found about Services on a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTrace {
    /// iptables, nftables or cilium.
    pub proxy_mode: &'static str,
    /// The version of the rules' shape, where there are several.
    pub layout: Option<&'static str>,
    /// The node whose proxy was compared.
    pub node: String,
    /// By service port and family.
    pub ports: Vec<PortTrace>,
    /// Faults in what all Services share.
    pub shared: Vec<SharedFault>,
    /// What the rules do not tell, in words.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// A fault in what all Services of a family share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedFault {
    /// IPv4 or IPv6.
    pub family: &'static str,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

impl ServiceTrace {
    /// How many faults were found.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.ports.iter().map(|port| port.faults().count()).sum::<usize>() + self.shared.len()
    }

    /// Tells that another mode's rules are on the node, too: those of a proxy that ran before and did not clean up.
    /// They take packets all the same, and nothing keeps them up to date.
    pub fn leftover(&mut self, other: &Self) {
        let mut families: Vec<&'static str> = other.ports.iter().map(|port| port.family).collect();
        families.sort_unstable();
        families.dedup();
        let (table, chain) = match other.proxy_mode {
            "iptables" => ("nat", "KUBE-SERVICES"),
            _ => (nftables::TABLE, "services"),
        };
        for family in families {
            let fault = Fault {
                difference: Difference::Extra,
                kind: Kind::Leftover,
                object: other.proxy_mode.to_owned(),
                place: Place::within(table, chain),
                endpoint: None,
                detail: format!(
                    "rules of {} mode are on the node, too; they take packets, and no proxy keeps them up to date",
                    other.proxy_mode
                ),
            };
            self.shared.push(SharedFault { family, fault });
        }
        self.ports.iter_mut().for_each(|port| port.status = Status::Broken);
    }

    /// Adds what was found in another family's rules of the same node and mode.
    pub fn merge(&mut self, other: Self) {
        self.layout = self.layout.or(other.layout);
        self.ports.extend(other.ports);
        // The port first, then the family: both of one port stand together.
        self.ports.sort_by(|a, b| {
            (&a.service, &a.port, a.protocol, a.family).cmp(&(&b.service, &b.port, b.protocol, b.family))
        });
        self.shared.extend(other.shared);
        self.not_examined.extend(other.not_examined);
        // A table of both families is one.
        self.not_examined.sort_unstable();
        self.not_examined.dedup();
    }
}

/// What was found about one service port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortTrace {
    /// `namespace/name`.
    pub service: String,
    /// The port's name; empty when it has none.
    pub port: String,
    /// TCP, UDP or SCTP.
    pub protocol: &'static str,
    /// IPv4 or IPv6.
    pub family: &'static str,
    /// Its cluster IP and port.
    pub address: String,
    /// ok or broken.
    pub status: Status,
    /// The walk of packets to the cluster IP.
    pub hops: Vec<Hop>,
    /// Objects that are not there.
    pub missing: Vec<Fault>,
    /// Objects that should not be there.
    pub extra: Vec<Fault>,
    /// Objects that say something else.
    pub wrong: Vec<Fault>,
    /// What clients of the worst address see.
    pub symptom: Symptom,
    /// That address; null when no connection fails that should not.
    pub failing: Option<String>,
    /// Each address with what its clients see.
    pub addresses: Vec<AddressTrace>,
    /// When the proxy mends it by itself; null when nothing is broken.
    pub heals: Option<&'static str>,
}

/// Whether a port is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// It is.
    Ok,
    /// It is not.
    Broken,
}

/// What clients of one address see.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressTrace {
    /// Which kind.
    pub to: RouteKind,
    /// Whose packets: of pods, of the node itself, of who is outside.
    pub from: Client,
    /// The address.
    pub address: String,
    /// What they see, beyond what they should: a Service without endpoints is refused, and that is right.
    pub symptom: Symptom,
    /// What they see.
    pub sees: Symptom,
    /// Why connections fail as they should, in words: nothing answers, or a policy keeps to the node, which has nothing;
    /// null when they should not fail.
    pub by_design: Option<String>,
    /// The only sources that may come by this address (`loadBalancerSourceRanges`): others are dropped, and shares are of
    /// those that may; null when all may.
    pub source_ranges: Option<Vec<String>>,
    /// Clients that fare worse than most: endpoints that ask themselves, who comes from outside of the cluster.
    pub worse: Vec<Worse>,
    /// How the first packets are spread, by endpoint.
    pub shares: Vec<(String, f64)>,
}

impl PortTrace {
    /// All faults of the port.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.missing.iter().chain(&self.wrong).chain(&self.extra)
    }
}

/// Compares a node's rules with what the ports should have.
#[must_use]
pub fn trace(rules: &Rules, ports: &[ExpectedPort], node: &str) -> ServiceTrace {
    let read = rules.read();
    let shared = read.shared_faults();
    let mut not_examined = rules.not_examined();
    let mut open = Vec::new();
    let listening = Listening { ports, all: OnceCell::new() };
    let of = |port| {
        trace_port((rules, &read), (port, &listening), (node, &shared), (&mut not_examined, &mut open))
    };
    let ports = ports.iter().map(of).collect();
    not_examined.extend(Open::told(open));
    not_examined.sort_unstable();
    not_examined.dedup();
    ServiceTrace {
        proxy_mode: rules.mode(),
        layout: rules.layout(),
        node: node.to_owned(),
        ports,
        not_examined,
        shared: shared
            .into_iter()
            .map(|fault| SharedFault { family: rules.family().as_str(), fault })
            .collect(),
    }
}

/// Where something listens: endpoints of all ports, which few questions need.
struct Listening<'a> {
    ports: &'a [ExpectedPort],
    all: OnceCell<BTreeSet<SocketAddr>>,
}

impl Listening<'_> {
    /// Whether a pod that is an endpoint refuses what comes to a port of it: nobody's endpoint is there.
    fn refuses(&self, endpoints: &[SocketAddr], to: SocketAddr) -> bool {
        let all = || self.ports.iter().flat_map(|port| port.cluster.iter().chain(&port.local)).copied();
        endpoints.iter().any(|endpoint| endpoint.ip() == to.ip())
            && !self.all.get_or_init(|| all().collect()).contains(&to)
    }
}

fn trace_port(
    (rules, read): (&Rules, &Read<'_>),
    (port, listening): (&ExpectedPort, &Listening<'_>),
    (node, shared): (&str, &[Fault]),
    (not_examined, open): (&mut Vec<String>, &mut Vec<Open>),
) -> PortTrace {
    let mut addresses = Vec::new();
    let mut hops = Vec::new();
    not_examined.extend(node_ports_elsewhere(rules, port, node));
    let mut unread = Vec::new();
    let mut strange = Vec::new();
    let ways = |frontend| read.follow(frontend, port).into_iter().map(move |way| (frontend, way));
    for (frontend, (from, followed)) in port.frontends.iter().flat_map(ways) {
        let action = followed.action.unwrap_or(frontend.action);
        let answering = port.endpoints(action);
        // Answers that come past this node are none.
        let is_heard = |to: &&SocketAddr| {
            !followed.unanswered && (!followed.keep_source.contains(to) || port.on_node.contains(to))
        };
        let heard: Vec<SocketAddr> = answering.iter().filter(is_heard).copied().collect();
        let refuses = |to: SocketAddr| is_heard(&&to) && listening.refuses(answering, to);
        let sees = followed.shares.symptom(&heard, refuses);
        let symptom =
            if answering.is_empty() { expected_end(action, sees, rules.refuses_all()) } else { sees };
        unread.extend(followed.unread);
        strange.extend(followed.strange);
        open.extend(followed.unsure);
        addresses.push(AddressTrace {
            to: frontend.kind,
            from,
            address: frontend.key.to_string(),
            symptom,
            sees,
            by_design: by_design(frontend.kind, from, action, node),
            source_ranges: Some(&port.source_ranges)
                .filter(|ranges| {
                    frontend.kind == RouteKind::LoadBalancer && !answering.is_empty() && !ranges.is_empty()
                })
                .map(|ranges| ranges.iter().map(ToString::to_string).collect()),
            worse: followed.worse,
            shares: followed.shares.to.iter().map(|(to, share)| (to.to_string(), *share)).collect(),
        });
        if from == Client::Pod && frontend.kind == RouteKind::ClusterIp {
            hops = followed.hops;
        }
    }
    unread.sort_unstable();
    unread.dedup();
    strange.sort_unstable();
    strange.dedup();
    // What all Services share was told already.
    strange.retain(|(place, _)| !shared.iter().any(|fault| fault.place == *place));
    let mut faults = read.faults(port);
    // One rule is one fault: what it does to packets says more than that nobody should have written it.
    faults.retain(|fault| {
        let is_stranger = fault.difference == Difference::Extra && fault.kind == Kind::Foreign;
        !(is_stranger && strange.iter().any(|(place, _)| *place == fault.place))
    });
    unread.retain(|place| !faults.iter().chain(shared).any(|fault| fault.place == *place));
    faults.extend(strange.into_iter().map(|(place, object)| Fault {
        difference: Difference::Extra,
        kind: Kind::Foreign,
        detail: match object.split_once(": ") {
            Some((_, what)) => format!("it is not the proxy's, and {what}"),
            None => format!("a rule that no proxy writes there decides about packets to it: {object}"),
        },
        object: object.split_once(": ").map_or(object.as_str(), |(word, _)| word).to_owned(),
        place,
        endpoint: None,
    }));
    faults.extend(unread.into_iter().map(|place| Fault {
        difference: Difference::Wrong,
        kind: Kind::Unread,
        object: "rule".to_owned(),
        place,
        endpoint: None,
        detail: "it has words that are not understood; it was taken to match nothing".to_owned(),
    }));
    let fails = |address: &&AddressTrace| !address.symptom.is_none() || !address.worse.is_empty();
    if let Some(failing) = addresses.iter().find(fails)
        && faults.is_empty()
        && shared.is_empty()
    {
        faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Unread,
            object: failing.address.clone(),
            place: hops.last().map(|hop| hop.place.clone()).unwrap_or_default(),
            endpoint: None,
            detail: format!("no single rule is missing, but followed to the end: {}", worst_of(failing)),
        });
    }
    let broken = !faults.is_empty() || !shared.is_empty();
    let heals = (!faults.is_empty()).then(|| rules.heals(&faults));
    let of = |difference: Difference| -> Vec<Fault> {
        faults.iter().filter(|fault| fault.difference == difference).cloned().collect()
    };
    // Of equals the first.
    let worst = addresses.iter().filter(|address| !address.symptom.is_none());
    let worst = worst.rev().max_by(|a, b| a.symptom.failing().total_cmp(&b.symptom.failing()));
    // Where most fare well, of those who do not.
    let few = || {
        let all =
            addresses.iter().flat_map(|address| address.worse.iter().map(move |worse| (worse, address)));
        all.rev().max_by(|(a, _), (b, _)| a.symptom.failing().total_cmp(&b.symptom.failing()))
    };
    let worst = worst.map(|worst| (worst.symptom, worst));
    let worst = worst.or_else(|| few().map(|(worse, address)| (worse.symptom, address)));
    let (symptom, failing) = worst.map(|(symptom, worst)| (symptom, worst.address.clone())).unzip();
    PortTrace {
        service: port.name.service.to_string(),
        port: port.name.port.clone(),
        protocol: port.name.protocol.as_str(),
        family: port.family.as_str(),
        address: addresses.first().map(|address| address.address.clone()).unwrap_or_default(),
        status: if broken { Status::Broken } else { Status::Ok },
        hops,
        missing: of(Difference::Missing),
        extra: of(Difference::Extra),
        wrong: of(Difference::Wrong),
        symptom: symptom.unwrap_or_default(),
        failing,
        addresses,
        heals,
    }
}

/// What most of its clients see, or where they see nothing, some.
fn worst_of(address: &AddressTrace) -> String {
    match address.worse.first().filter(|_| address.symptom.is_none()) {
        Some(worse) => format!("from {}, {}", worse.clients, worse.symptom),
        None => address.symptom.to_string(),
    }
}

/// That node ports are taken at addresses alone of which the Node's status has none: it may have others, as its proxy was
/// told by `--nodeport-addresses`, or be another node.
fn node_ports_elsewhere(rules: &Rules, port: &ExpectedPort, node: &str) -> Option<String> {
    let has_node_port = port.frontends.iter().any(|frontend| frontend.kind == RouteKind::NodePort);
    let taken = rules.node_port_addresses();
    let is_own = |ip: &IpAddr| port.addresses.contains(ip);
    let is_elsewhere =
        has_node_port && !port.addresses.is_empty() && !taken.is_empty() && !taken.iter().any(is_own);
    is_elsewhere.then(|| {
        let words = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "whether {} is {node}'s: node ports are taken there alone (--nodeport-addresses), and its status has {}",
            words(&taken),
            words(&port.addresses)
        )
    })
}

/// Why connections to an address fail as they should.
fn by_design(kind: RouteKind, from: Client, action: Action, node: &str) -> Option<String> {
    let policy = match (kind, from) {
        (RouteKind::ClusterIp, _) | (_, Client::Pod | Client::Node) => "internalTrafficPolicy",
        _ => "externalTrafficPolicy",
    };
    match action {
        Action::Cluster | Action::Local => None,
        Action::Refuse => Some("refused by design: no endpoint answers anywhere".to_owned()),
        Action::Drop => Some(format!(
            "dropped by design: {policy} Local, and no endpoint on {node} answers; others do elsewhere"
        )),
    }
}

/// A Service without endpoints should be refused, one without local endpoints dropped: that is no symptom. Cilium makes
/// no difference between them.
fn expected_end(action: Action, found: Symptom, refuses_all: bool) -> Symptom {
    match action {
        Action::Drop if refuses_all => Symptom::default(),
        Action::Refuse => Symptom { refused_share: 0.0, ..found },
        Action::Drop => Symptom { timeout_share: 0.0, ..found },
        Action::Cluster | Action::Local => found,
    }
}
