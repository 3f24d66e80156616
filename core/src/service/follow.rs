//! What rules do with the first packets to an address, and what clients see of it.
//!
//! Invariant: computed from the rules that were found, share by share, not from what is wrong with them, so that a
//! fault without consequence is told as one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use super::fault::Place;

/// Chains in chains are as deep as this at most: node ports, source ranges, outside, service, endpoint.
pub(super) const DEEPEST: usize = 8;

/// Who sends the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Client {
    /// A pod, on this node or another.
    Pod,
    /// Somebody outside the cluster, within the ranges that the Service admits.
    Outside,
    /// The node itself.
    Node,
}

/// Where first packets to an address go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// Where shares of them end.
    pub shares: Shares,
    /// Rules and elements that took some of them, in order.
    pub hops: Vec<Hop>,
    /// Rules with words that are not understood, among those that were asked.
    pub unread: Vec<Place>,
    /// Rules that decide and that no proxy writes where they are, with what they do.
    pub strange: Vec<(Place, String)>,
    /// Endpoints that see the address of a client outside in place of the node's: those on other nodes answer past this
    /// one, and clients take no such answer.
    pub keep_source: std::collections::BTreeSet<SocketAddr>,
    /// Whether answers come with an address that no client asked, so that none takes them.
    pub unanswered: bool,
    /// What should happen to these clients' packets, where that is not what the address's others get.
    pub action: Option<super::expected::Action>,
    /// Clients that fare worse than most.
    pub worse: Vec<Worse>,
    /// What may become of packets by rules with conditions that no dump tells; they are taken to pass.
    pub unsure: Vec<Open>,
    /// How many rules a packet is compared with until it is decided, on average.
    pub rules: f64,
    /// How many maps it is looked up in, on average.
    pub lookups: f64,
}

/// A question that no dump answers: `whether packets {packets} {question}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Open {
    /// What may become of them and why that is not known; questions that are alike here are told as one.
    pub question: String,
    /// Which packets, in words: from where, and where to.
    pub packets: String,
}

impl Open {
    pub(super) fn new(packets: impl Into<String>, question: impl Into<String>) -> Self {
        Self { packets: packets.into(), question: question.into() }
    }

    /// In words, each question once.
    pub(super) fn told(mut all: Vec<Self>) -> Vec<String> {
        const MOST: usize = 3;
        all.sort_unstable();
        all.dedup();
        let of = |alike: &[Self]| {
            let named: Vec<&str> = alike.iter().take(MOST).map(|open| open.packets.as_str()).collect();
            let more = alike.len().saturating_sub(MOST);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let question = alike.first().map(|open| open.question.as_str()).unwrap_or_default();
            format!("whether packets {}{more} {question}", named.join(", "))
        };
        all.chunk_by(|a, b| a.question == b.question).map(of).collect()
    }
}

/// Clients that fare worse than most of those that ask an address.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worse {
    /// Who, in words.
    pub clients: String,
    /// What they see.
    pub symptom: Symptom,
}

impl Worse {
    /// Those of whom a share gets no answer; `None` when all do.
    pub(super) fn of(clients: String, lost: f64) -> Option<Self> {
        let symptom = Symptom { timeout_share: round(lost), refused_share: 0.0 };
        (!symptom.is_none()).then_some(Self { clients, symptom })
    }

    /// Endpoints of the node whose packets to themselves keep their source.
    pub(super) fn to_themselves(alone: &[SocketAddr], shares: &Shares) -> Option<Self> {
        const MOST: usize = 3;
        let share = alone.iter().filter_map(|to| shares.to.get(to)).copied().fold(0.0, f64::max);
        let named: Vec<String> = alone.iter().take(MOST).map(|to| to.ip().to_string()).collect();
        let more = alone.len().saturating_sub(MOST);
        let clients = match (named.as_slice(), more) {
            ([one], _) => format!("{one}, its own endpoint"),
            (all, 0) => format!("{}, each its own endpoint", all.join(", ")),
            (all, more) => format!("{} and {more} more, each its own endpoint", all.join(", ")),
        };
        Self::of(clients, share)
    }
}

/// One step of a packet through the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Where.
    pub place: Place,
    /// What it does: the chain that is entered, or the address that is written.
    pub to: String,
    /// The number of this choice and of all, when the packet takes one of several.
    pub choice: Option<(usize, usize)>,
    /// How deep in the walk.
    pub depth: usize,
}

/// What becomes of first packets, as shares of 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// Translated to these.
    pub to: BTreeMap<SocketAddr, f64>,
    /// Answered with a refusal.
    pub refused: f64,
    /// Dropped, or sent on to an address that nobody has.
    pub silent: f64,
}

impl Shares {
    /// What clients see when these endpoints answer, others refuse, and nobody else does anything.
    #[must_use]
    pub fn symptom(&self, answering: &[SocketAddr], refuses: impl Fn(SocketAddr) -> bool) -> Symptom {
        let (mut lost, mut refused) = (self.silent, self.refused);
        for (to, share) in self.to.iter().filter(|(to, _)| !answering.contains(to)) {
            *(if refuses(*to) { &mut refused } else { &mut lost }) += share;
        }
        Symptom { timeout_share: round(lost), refused_share: round(refused) }
    }
}

/// Shares of new connections that fail, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Symptom {
    /// That time out.
    pub timeout_share: f64,
    /// That are refused.
    pub refused_share: f64,
}

impl Symptom {
    /// True when no connection fails.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.timeout_share == 0.0 && self.refused_share == 0.0
    }

    /// How much fails, to find the worst.
    #[must_use]
    pub fn failing(self) -> f64 {
        self.timeout_share + self.refused_share
    }
}

impl std::fmt::Display for Symptom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |share: f64, what: &str| match share {
            share if share <= 0.0 => None,
            share if share >= 0.9995 => Some(format!(
                "every new connection {}",
                if what == "times out" { what } else { "is refused" }
            )),
            share => {
                let verb = if what == "times out" { "time out" } else { "are refused" };
                Some(format!("about {:.0}% of new connections {verb}", share * 100.0))
            }
        };
        let parts: Vec<String> =
            [part(self.timeout_share, "times out"), part(self.refused_share, "is refused")]
                .into_iter()
                .flatten()
                .collect();
        if parts.is_empty() { f.write_str("no connection fails") } else { f.write_str(&parts.join(", ")) }
    }
}

/// Probabilities are stored in 31 bits; what is smaller than that is nothing.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}
