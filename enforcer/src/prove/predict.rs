//! The two witnesses that need no kernel: the specification and the compiled tables.
//!
//! Invariant: the specification is asked about the objects as written, the tables about the compiled bytes, and
//! neither sees the other's answer. Both are asked about a new connection.

use netlab_core::input::WireObjects;
use netlab_core::model::cluster::{Cluster, Pod};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{Outcome, left_open};
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question};
use netlab_core::policy::query::{End, Pair, owner};
use netlab_core::policy::trial::{Egress, HopVerdict, Trial};

/// What the specification and the tables say, separately.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The specification's verdict.
    pub spec: Outcome,
    /// The specification's verdict for the source's side and the destination's.
    pub spec_sides: [Outcome; 2],
    /// The tables' verdict.
    pub tables: Verdict,
    /// What the tables say at each hook: source egress, destination ingress.
    pub hops: [Option<HopVerdict>; 2],
    /// The packet as it comes to its destination.
    pub arriving: Tuple,
    /// Why the API does not say what the node's proxy makes of the packet, if it does not.
    pub left_open: Option<String>,
}

impl Prediction {
    /// Asks both.
    pub fn new(cluster: &Cluster, objects: &WireObjects, trial: &Trial, pair: &Pair, seen: Egress) -> Self {
        let oracle = Oracle::new(objects);
        let question = question(cluster, pair);
        let answer = match &pair.via {
            Some(_) => oracle.judge_through_service(&question),
            None => oracle.judge(&question),
        };
        let hops = trial.hops_seen(cluster, pair, seen);
        let left_open = left_open(cluster, pair, &hops);
        let denied = hops.iter().flatten().any(|hop| hop.verdict == Verdict::Deny);
        Self {
            spec: if left_open.is_some() { Outcome::Undefined } else { verdict(answer.verdict) },
            spec_sides: [verdict(answer.egress.verdict), verdict(answer.ingress.verdict)],
            tables: if denied { Verdict::Deny } else { Verdict::Allow },
            hops,
            arriving: trial.arriving(cluster, pair),
            left_open,
        }
    }

    /// Takes the verdict back: the API does not give one, for this reason.
    pub fn leave_open(&mut self, why: String) {
        self.spec = Outcome::Undefined;
        self.left_open.get_or_insert(why);
    }

    /// Where the two differ, in words; empty when they agree on every side.
    pub fn differences(&self) -> Vec<String> {
        if self.left_open.is_some() {
            return Vec::new();
        }
        let names = ["egress", "ingress"];
        let sides = names.into_iter().zip(self.spec_sides).zip(&self.hops);
        sides
            .filter_map(|((name, spec), hop)| {
                let tables = hop.map_or(Verdict::Allow, |hop| hop.verdict);
                // Where the API leaves the order of two policies open, the tables deny.
                (held(spec) != tables)
                    .then(|| format!("{name}: the spec says {spec}, the compiled tables {tables}"))
            })
            .collect()
    }
}

/// The question of a pair, in the oracle's own words.
pub fn question(cluster: &Cluster, pair: &Pair) -> Question {
    Question {
        source: end(cluster, &pair.from, pair.tuple.source),
        destination: end(cluster, &pair.to, pair.tuple.destination),
        protocol: match pair.tuple.protocol {
            6 => IpProtocol::Tcp,
            17 => IpProtocol::Udp,
            132 => IpProtocol::Sctp,
            1 | 58 => IpProtocol::Icmp,
            other => IpProtocol::Other(other),
        },
        port: pair.tuple.destination_port,
    }
}

/// Who really sends or receives. A host-network pod is its node.
fn end(cluster: &Cluster, end: &End, address: std::net::IpAddr) -> oracle::End {
    let node_of = |pod: &Pod| pod.node.clone().filter(|_| pod.host_network);
    match end {
        End::Pod(key) => match cluster.pods.get(key).and_then(node_of) {
            Some(name) => oracle::End::Node { name, address },
            None => oracle::End::Pod { namespace: key.namespace.clone(), name: key.name.clone(), address },
        },
        End::Node(name) => oracle::End::Node { name: name.clone(), address },
        End::Address(address) => match owner(cluster, *address) {
            End::Address(address) => oracle::End::External(address),
            owner => self::end(cluster, &owner, *address),
        },
    }
}

const fn verdict(verdict: oracle::Verdict) -> Outcome {
    match verdict {
        oracle::Verdict::Allow => Outcome::Allow,
        oracle::Verdict::Deny => Outcome::Deny,
        oracle::Verdict::Undefined => Outcome::Undefined,
    }
}

/// What the tables must hold where the specification says this.
const fn held(spec: Outcome) -> Verdict {
    match spec {
        Outcome::Allow => Verdict::Allow,
        Outcome::Deny | Outcome::Mixed | Outcome::Undefined => Verdict::Deny,
    }
}
