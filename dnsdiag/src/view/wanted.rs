//! The names that the application asks for, what they should resolve to, and what was answered.
//!
//! Invariant: the truth is [`crate::records`]'s; without Services, slices and namespaces there is none, and a name that nobody
//! asked about has no questions. Connections after DNS are no questions: [`View::connects`].

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Position, Probe, Transport};

use super::{Ask, Reach, Seen, Server, View};
use crate::bundle::layout;
use crate::records::{RecordType, Truth, World, intended, truth};

/// What the truth about names rests on.
pub const TRUTH_FACTS: [&str; 4] = [layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS];

/// One of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As the application writes it.
    pub name: String,
    /// The full name that is meant.
    pub full: String,
    /// What it should resolve to.
    pub truth: Truth,
}

impl Wanted {
    /// The addresses that it should have.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let of = |record| self.truth.records.get(&record).into_iter().flatten();
        of(RecordType::A).chain(of(RecordType::Aaaa)).filter_map(|text| text.parse().ok()).collect()
    }
}

/// A nameserver of the pod's file with how it behaves.
#[derive(Clone, Debug)]
pub struct NameserverSeen {
    /// Its address.
    pub address: IpAddr,
    /// What it is.
    pub server: Option<Server>,
    /// How it behaves over UDP.
    pub udp: Seen,
}

/// True for a row about a connection after DNS, which is no question.
#[must_use]
pub fn is_connect(probe: &Probe) -> bool {
    probe.qtype.eq_ignore_ascii_case("connect")
}

impl<'e> View<'e> {
    /// The names with what they should resolve to; empty when that cannot be told.
    #[must_use]
    pub fn wanted(&self) -> Vec<Wanted> {
        if !self.missing(&TRUTH_FACTS).is_empty() {
            return Vec::new();
        }
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        let cluster = &self.loaded.cluster;
        let names = self.target.names.iter();
        names
            .map(|name| {
                let full = intended(cluster, &domain, &self.target.namespace, name);
                let truth = truth(World::new(cluster, &domain), &full);
                Wanted { name: name.clone(), full, truth }
            })
            .collect()
    }

    /// The pod's questions for exactly this name.
    #[must_use]
    pub fn questions(&self, full: &str) -> Vec<(&'e str, &'e Probe)> {
        let same =
            |probe: &Probe| probe.name.trim_end_matches('.').eq_ignore_ascii_case(full.trim_end_matches('.'));
        self.rows(&Ask::from_pod()).into_iter().filter(|(_, probe)| same(probe)).collect()
    }

    /// True when the pod's nameservers left UDP questions of other types than this one unanswered.
    #[must_use]
    pub fn lost_but(&self, qtype: &str) -> bool {
        let asked = self.rows(&Ask::from_pod().to(self.nameservers()).over(Transport::Udp));
        asked.iter().any(|(_, probe)| {
            probe.edns.is_none() && !probe.qtype.eq_ignore_ascii_case(qtype) && !probe.all_answered()
        })
    }

    /// True when the pod's nameservers answered none of at least six UDP questions of this type and most of the others: by chance
    /// that happens once in more than fifty times.
    #[must_use]
    pub fn never_answered(&self, qtype: &str) -> bool {
        let asked = self.rows(&Ask::from_pod().to(self.nameservers()).over(Transport::Udp));
        let (of_it, others): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .filter(|(_, probe)| probe.edns.is_none())
            .partition(|(_, probe)| probe.qtype.eq_ignore_ascii_case(qtype));
        let (of_it, others) = (super::seen(&of_it), super::seen(&others));
        of_it.sent >= 6 && of_it.answered == 0 && others.answered * 2 >= others.sent
    }

    /// The names that the pod's resolver tries for a name, in order, whatever is answered.
    #[must_use]
    pub fn tried(&self, name: &str) -> Vec<String> {
        self.candidates(name).into_iter().map(|candidate| candidate.name).collect()
    }

    /// Connections that were tried after DNS, from the pod.
    #[must_use]
    pub fn connects(&self) -> Vec<(&'e str, &'e Probe)> {
        let rows = self.evidence.probes();
        rows.filter(|(_, probe)| is_connect(probe) && probe.from == Position::Pod).collect()
    }

    /// The pod's nameservers in order, each measured over UDP: by what every cluster server can answer, else by
    /// whatever it was asked.
    #[must_use]
    pub fn nameservers_seen(&self) -> Vec<NameserverSeen> {
        let each = self.nameservers().into_iter();
        each.map(|address| {
            let ask = Ask::from_pod().to([address]).port(53).over(Transport::Udp);
            let canary = self.canary(&ask);
            let udp = if canary.reach == Reach::NotAsked { self.seen(&ask) } else { canary };
            NameserverSeen { address, server: self.server(address), udp }
        })
        .collect()
    }

    /// The rows in which one of the pod's nameservers gives `kubernetes.default` its address: DNS of the cluster works as
    /// the pod sees it. Empty when none does.
    #[must_use]
    pub fn cluster_dns_works(&self) -> Vec<&'e str> {
        let rows = self.rows(&Ask::from_pod().to(self.nameservers()));
        let right = rows.into_iter().filter(|(_, probe)| {
            probe.name.starts_with("kubernetes.default.")
                && probe.result == Outcome::Noerror
                && !probe.answers.is_empty()
        });
        right.map(|(id, _)| id).collect()
    }
}

/// Ids of rows.
#[must_use]
pub fn row_ids(rows: &[(&str, &Probe)]) -> Vec<String> {
    rows.iter().map(|(id, _)| (*id).to_owned()).collect()
}
