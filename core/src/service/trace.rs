//! The answer of `netlab service trace`: a packet followed through a proxy's rules, and what is not as it should be.
//!
//! Invariant: one entry per service port and family; a port is `ok` exactly when no fault of its own or of what all
//! Services share was found; the symptom is that of the worst of its addresses.

use serde::Serialize;

use super::expected::{Action, ExpectedFrontend, ExpectedPort};
use super::fault::{Difference, Fault, Kind, Place};
use super::follow::{Client, Followed, Hop, Symptom};
use super::{RouteKind, cilium, iptables, nftables};
use crate::model::service::AddressType;

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
    /// The address.
    pub address: String,
    /// What they see, beyond what they should: a Service without endpoints is refused, and that is right.
    pub symptom: Symptom,
    /// How the first packets are spread, by endpoint.
    pub shares: Vec<(String, f64)>,
}

impl PortTrace {
    /// All faults of the port.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.missing.iter().chain(&self.wrong).chain(&self.extra)
    }
}

/// The rules of a node, as they were read.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Of iptables mode.
    Iptables(iptables::dump::Dump),
    /// Of nftables mode.
    Nftables(nftables::dump::Dump),
    /// Of Cilium's eBPF programs.
    Cilium(cilium::dump::Dump),
}

impl Rules {
    /// The family that they are of.
    #[must_use]
    pub fn family(&self) -> AddressType {
        match self {
            Self::Iptables(dump) => dump.family(),
            Self::Nftables(dump) => dump.family,
            Self::Cilium(dump) => dump.family,
        }
    }

    /// iptables, nftables or cilium.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Iptables(_) => "iptables",
            Self::Nftables(_) => "nftables",
            Self::Cilium(_) => "cilium",
        }
    }

    /// The version of the rules' shape in words, where there are several.
    #[must_use]
    pub fn layout(&self) -> Option<&'static str> {
        match self {
            Self::Iptables(_) | Self::Cilium(_) => None,
            Self::Nftables(dump) => nftables::layout(dump).map(nftables::Layout::as_str),
        }
    }

    pub(super) fn follow(&self, frontend: &ExpectedFrontend) -> Followed {
        let client = if frontend.kind == RouteKind::ClusterIp { Client::Pod } else { Client::Outside };
        match self {
            Self::Iptables(dump) => iptables::follow(dump, frontend.key, client),
            Self::Nftables(dump) => nftables::follow(dump, frontend.key, client),
            Self::Cilium(dump) => cilium::follow(dump, frontend.key, client),
        }
    }

    fn faults(&self, port: &ExpectedPort) -> Vec<Fault> {
        match self {
            Self::Iptables(dump) => iptables::faults(dump, port),
            Self::Nftables(dump) => nftables::faults(dump, port),
            Self::Cilium(dump) => cilium::faults(dump, port),
        }
    }

    /// When the proxy mends faults by itself.
    fn heals(&self, faults: &[Fault]) -> &'static str {
        let at_once = |fault: &Fault| fault.place.table == "filter" || fault.place.chain == "KUBE-SERVICES";
        match self {
            Self::Iptables(_) if faults.iter().all(at_once) => {
                "at the proxy's next sync, when any Service or endpoint changes"
            }
            Self::Iptables(_) => {
                "when this Service next changes, or within 1 h (full sync; never with over 1000 endpoints)"
            }
            Self::Cilium(_) => "when Cilium next writes this Service, or starts anew",
            // Elements are kept in memory and not looked at again; chains are written when the Service changes.
            Self::Nftables(_) => {
                "within 1 h (full sync); a chain's rules also when this Service next changes"
            }
        }
    }
}

/// Compares a node's rules with what the ports should have.
#[must_use]
pub fn trace(rules: &Rules, ports: &[ExpectedPort], node: &str) -> ServiceTrace {
    let shared = match rules {
        Rules::Iptables(dump) => iptables::shared_faults(dump),
        Rules::Nftables(dump) => nftables::shared_faults(dump),
        Rules::Cilium(_) => Vec::new(),
    };
    let family = rules.family();
    ServiceTrace {
        proxy_mode: rules.mode(),
        layout: rules.layout(),
        node: node.to_owned(),
        ports: ports.iter().map(|port| trace_port(rules, port, &shared)).collect(),
        shared: shared.into_iter().map(|fault| SharedFault { family: family.as_str(), fault }).collect(),
    }
}

fn trace_port(rules: &Rules, port: &ExpectedPort, shared: &[Fault]) -> PortTrace {
    let mut addresses = Vec::new();
    let mut hops = Vec::new();
    let mut unread = Vec::new();
    let mut strange = Vec::new();
    for frontend in &port.frontends {
        let followed = rules.follow(frontend);
        let answering = port.endpoints(frontend.action);
        let mut symptom = followed.shares.symptom(answering);
        if answering.is_empty() {
            symptom = expected_end(frontend.action, symptom, rules);
        }
        unread.extend(followed.unread);
        strange.extend(followed.strange);
        addresses.push(AddressTrace {
            to: frontend.kind,
            address: frontend.key.to_string(),
            symptom,
            shares: followed.shares.to.iter().map(|(to, share)| (to.to_string(), *share)).collect(),
        });
        if frontend.kind == RouteKind::ClusterIp {
            hops = followed.hops;
        }
    }
    unread.sort_unstable();
    unread.dedup();
    strange.sort_unstable();
    strange.dedup();
    let mut faults = rules.faults(port);
    faults.extend(strange.into_iter().map(|(place, object)| Fault {
        difference: Difference::Extra,
        kind: Kind::Foreign,
        detail: format!("a rule that no proxy writes there decides about packets to it: {object}"),
        object,
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
    if let Some(failing) = addresses.iter().find(|address| !address.symptom.is_none())
        && faults.is_empty()
        && shared.is_empty()
    {
        faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Unread,
            object: failing.address.clone(),
            place: hops.last().map(|hop| hop.place.clone()).unwrap_or_default(),
            endpoint: None,
            detail: format!("no single rule is missing, but followed to the end: {}", failing.symptom),
        });
    }
    let broken = !faults.is_empty() || !shared.is_empty();
    let heals = (!faults.is_empty()).then(|| rules.heals(&faults));
    let of = |difference: Difference| -> Vec<Fault> {
        faults.iter().filter(|fault| fault.difference == difference).cloned().collect()
    };
    let worst = addresses
        .iter()
        .map(|address| address.symptom)
        .fold(Symptom::default(), |worst, one| if one.failing() > worst.failing() { one } else { worst });
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
        symptom: worst,
        addresses,
        heals,
    }
}

/// A Service without endpoints should be refused, one without local endpoints dropped: that is no symptom. Cilium makes
/// no difference between them.
fn expected_end(action: Action, found: Symptom, rules: &Rules) -> Symptom {
    let found = match (action, rules) {
        (Action::Drop, Rules::Cilium(_)) => Symptom { refused_share: 0.0, ..found },
        _ => found,
    };
    match action {
        Action::Refuse => Symptom { refused_share: 0.0, ..found },
        Action::Drop => Symptom { timeout_share: 0.0, ..found },
        Action::Cluster | Action::Local => found,
    }
}
