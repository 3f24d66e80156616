//! A first packet on its way through rules that are not about Services: the kernel's chains after translation.
//!
//! Invariant: what a rule asks for and a dump cannot tell (interfaces, marks of others, sets) is neither taken for true
//! nor for false: both ways are gone, and the packet's fate is certain only where all of them end alike.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::fault::Place;
use super::follow::{Client, Followed, Open};
use crate::model::port::Protocol;

/// The packet, as these chains see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Who sent it.
    pub(super) client: Client,
    /// Where to; `None` for some address of the node.
    pub(super) to: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    /// Whether that address is the node's own.
    pub(super) to_node: bool,
    /// Whether its destination was translated before.
    pub(super) translated: bool,
    /// Its mark; `None` when nobody knows.
    pub(super) mark: Option<u32>,
    /// Where pods are, if the rules say so.
    pub(super) pods: Option<IpNet>,
    /// Which of the connection's packets it is.
    pub(super) flow: Flow,
}

/// Which of a connection's packets one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    First,
    /// One after it, in the same direction.
    Later,
    /// An answer: who sent the first is whom it goes to.
    Answer,
}

impl Packet {
    /// Whether it comes from an address in a net.
    pub(super) fn is_from(&self, net: IpNet) -> Match {
        if self.flow == Flow::Answer { self.is_of_endpoint(net) } else { self.is_of_client(net) }
    }

    /// Whether it goes to an address in a net.
    pub(super) fn is_to(&self, net: IpNet) -> Match {
        if self.flow == Flow::Answer { self.is_of_client(net) } else { self.is_of_endpoint(net) }
    }

    /// Whether it comes from, or goes to, an address of the node.
    pub(super) fn is_of_node(&self, comes: bool) -> bool {
        let by_client = comes != (self.flow == Flow::Answer);
        if by_client { self.client == Client::Node } else { self.to_node }
    }

    fn is_of_client(&self, net: IpNet) -> Match {
        match (self.client, self.pods) {
            _ if net.prefix_len() == 0 => Match::Yes,
            // What goes to itself comes from there.
            (Client::Node, _) if self.to_node => self.is_of_endpoint(net),
            (Client::Pod, Some(pods)) if net.contains(&pods) => Match::Yes,
            (Client::Pod, Some(pods)) if !pods.contains(&net) => Match::No,
            (Client::Outside, Some(pods)) if pods.contains(&net) => Match::No,
            _ => Match::Perhaps,
        }
    }

    /// Whether the port that it comes from, or goes to, is in a range.
    pub(super) fn is_of_port(&self, comes: bool, low: u16, high: u16) -> Match {
        if comes == (self.flow == Flow::Answer) {
            return Match::of((low..=high).contains(&self.port));
        }
        // The client's own: what Linux takes by itself (`net.ipv4.ip_local_port_range`), or others do (RFC 6056).
        let (first, last) = match self.client {
            Client::Pod | Client::Node => (32_768, 60_999),
            Client::Outside => (1_024, u16::MAX),
        };
        match (low <= first && last <= high, low <= last && first <= high) {
            (true, _) => Match::Yes,
            (_, false) => Match::No,
            // Of so many one that is named is none.
            (false, true) if low == high => Match::No,
            (false, true) => Match::Perhaps,
        }
    }

    fn is_of_endpoint(&self, net: IpNet) -> Match {
        match (self.to, self.pods) {
            (Some(address), _) => Match::of(net.contains(&address)),
            // The node has its addresses elsewhere than its pods; that of their bridge nobody is told of.
            (None, Some(pods)) if pods.contains(&net) => Match::No,
            (None, _) => Match::Perhaps,
        }
    }

    /// Whether connection tracking has it in one of these states.
    pub(super) fn is_in(&self, mut states: impl Iterator<Item = impl AsRef<str>>) -> bool {
        states.any(|state| match state.as_ref().to_ascii_uppercase().as_str() {
            "NEW" => self.flow == Flow::First,
            "ESTABLISHED" => self.flow != Flow::First,
            "DNAT" => self.translated,
            _ => false,
        })
    }

    /// Whether it comes, or goes, by an interface; the loopback is the only one whose name is known.
    pub(super) fn by_interface(&self, name: &str, comes: bool) -> Match {
        let by_loopback = self.client == Client::Node && self.to_node;
        match name {
            "lo" => Match::of(by_loopback),
            _ if by_loopback => Match::No,
            // What the node itself sends came by none.
            _ if comes && self.client == Client::Node && self.flow != Flow::Answer => Match::No,
            _ => Match::Perhaps,
        }
    }

    pub(super) fn is_marked(&self, value: u32, mask: u32) -> Match {
        self.mark.map_or(Match::Perhaps, |mark| Match::of(mark & mask == value))
    }

    /// In words.
    fn words(&self) -> String {
        let from = match self.client {
            Client::Pod => "pods",
            Client::Outside => "outside",
            Client::Node => "the node itself",
        };
        let to = match self.to {
            Some(address) => SocketAddr::new(address, self.port).to_string(),
            None => format!("node port {}", self.port),
        };
        match self.flow {
            Flow::First => format!("from {from} to {to}"),
            Flow::Later => format!("after the first from {from} to {to}"),
            Flow::Answer => format!("of {to} that answer {from}"),
        }
    }
}

/// Whether a condition is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    Perhaps,
}

impl Match {
    pub(super) const fn of(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }

    pub(super) const fn not(self, negated: bool) -> Self {
        match self {
            Self::Yes if negated => Self::No,
            Self::No if negated => Self::Yes,
            same => same,
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Perhaps,
        }
    }
}

/// How a packet may come out of rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    /// Undecided: to what comes next in the same hook and table.
    pub(super) on: bool,
    /// Let through by this table.
    pub(super) accepted: bool,
    /// Dropped.
    pub(super) dropped: bool,
    /// Refused.
    pub(super) refused: bool,
    /// What drops or refuses it for certain, or perhaps, with the word.
    pub(super) enders: Vec<(Place, String)>,
    /// Rules with conditions that a dump cannot tell, where they decide.
    pub(super) unsure: Vec<Place>,
    /// The last rule that may have changed its mark.
    pub(super) remarked: Option<Place>,
}

/// What is certain of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    Dropped,
    Refused,
    Unsure,
}

impl Outcomes {
    /// Nothing was asked yet.
    pub(super) fn undecided() -> Self {
        Self { on: true, ..Self::default() }
    }

    /// Adds how rules may decide that are asked of what is still undecided; `sure` when they are asked for certain.
    pub(super) fn add(&mut self, other: Self, sure: bool) {
        self.accepted |= other.accepted;
        self.dropped |= other.dropped;
        self.refused |= other.refused;
        self.enders.extend(other.enders);
        self.unsure.extend(other.unsure);
        if sure {
            self.on = other.on;
        }
    }

    /// Whether it may be decided at all.
    pub(super) const fn decides(&self) -> bool {
        self.accepted || self.dropped || self.refused
    }

    /// Let through.
    pub(super) fn accepted() -> Self {
        Self { accepted: true, ..Self::default() }
    }

    /// Dropped by a rule or policy, with its word.
    pub(super) fn dropped(place: Place, word: &str) -> Self {
        Self { dropped: true, enders: vec![(place, word.to_owned())], ..Self::default() }
    }

    /// Refused by a rule, with its word.
    pub(super) fn refused(place: Place, word: &str) -> Self {
        Self { refused: true, enders: vec![(place, word.to_owned())], ..Self::default() }
    }

    /// What nobody knows: other programs decide, or words that are not understood.
    pub(super) fn unknown(place: Place, word: &str) -> Self {
        Self { on: true, accepted: true, ..Self::dropped(place, word) }
    }

    /// The policy of a base chain that drops what is still undecided.
    pub(super) fn end_by_policy(&mut self, place: Place, word: &str) {
        if self.on {
            self.add(Self::dropped(place, word), true);
        }
    }

    /// Adds a rule's verdict; true when nothing is left for the rules behind it.
    pub(super) fn decide(&mut self, mut verdict: Self, sure: bool, place: Place) -> bool {
        if !sure {
            verdict.unsure.push(place);
        }
        self.add(verdict, sure);
        !self.on
    }

    /// Adds what a chain came to that a rule calls, or goes to for good; true when nothing is left for the rules behind it.
    pub(super) fn call(&mut self, mut chain: Self, (sure, goes): (bool, bool), place: Place) -> bool {
        if sure && goes && chain.on {
            // What comes back from there goes on where this chain was called.
            self.add(chain, true);
            return true;
        }
        if !chain.decides() {
            return false;
        }
        if !sure {
            chain.unsure.insert(0, place);
        }
        self.add(chain, sure);
        !self.on
    }

    /// Adds what the rules behind a return do, of which nobody knows whether the packet takes it.
    pub(super) fn perhaps_return(&mut self, mut rest: Self, place: Place) {
        if rest.decides() {
            rest.unsure.insert(0, place);
        }
        self.add(rest, false);
    }

    /// The next table, hook or base chain: it sees what was let through so far.
    pub(super) fn then(&mut self, next: Self) {
        self.on = false;
        self.accepted = next.accepted || next.on;
        self.dropped |= next.dropped;
        self.refused |= next.refused;
        self.enders.extend(next.enders);
        self.unsure.extend(next.unsure);
        self.remarked = next.remarked.or(self.remarked.take());
    }

    /// What nobody lets through after the first packet is never answered: a refusal ends no connection that is open, and
    /// one of an answer goes to the endpoint.
    pub(super) fn unanswered(mut self) -> Self {
        self.dropped |= self.refused;
        self.refused = false;
        self
    }

    pub(super) const fn passes(&self) -> bool {
        self.accepted || self.on
    }

    pub(super) const fn fate(&self) -> Fate {
        match (self.passes(), self.dropped, self.refused) {
            (true, false, false) => Fate::Passes,
            (false, true, false) => Fate::Dropped,
            (false, false, true) => Fate::Refused,
            _ => Fate::Unsure,
        }
    }
}

/// Puts to the packets that were translated what the chains after translation do with them. What is not certain is
/// told, and taken to pass.
pub(super) fn arrive(followed: &mut Followed, mut of: impl FnMut(SocketAddr) -> (Packet, Outcomes)) {
    let mut arrived = std::collections::BTreeMap::new();
    for (to, share) in std::mem::take(&mut followed.shares.to) {
        let (packet, outcomes) = of(to);
        match outcomes.fate() {
            Fate::Passes => {}
            Fate::Dropped => {
                followed.shares.silent += share;
                told(&mut followed.strange, outcomes, &packet, "dropped");
                continue;
            }
            Fate::Refused => {
                followed.shares.refused += share;
                told(&mut followed.strange, outcomes, &packet, "refused");
                continue;
            }
            Fate::Unsure => unsure(&mut followed.unsure, &outcomes, &packet),
        }
        arrived.insert(to, share);
    }
    followed.shares.to = arrived;
}

/// What becomes of the packets after one that came through, and of the answers. Marks are set where connections are
/// translated, so on first packets alone: `mark` is that of all others, where somebody knows it.
pub(super) fn goes_on(
    first: Packet,
    mut outcomes: Outcomes,
    mark: Option<u32>,
    mut after: impl FnMut(&mut Packet) -> Outcomes,
) -> (Packet, Outcomes) {
    // One packet and one answer are all that UDP needs.
    let flows: &[Flow] = match first.protocol {
        Protocol::Udp => &[Flow::Answer],
        _ => &[Flow::Later, Flow::Answer],
    };
    for flow in flows {
        if !outcomes.passes() {
            break;
        }
        let mut packet = Packet { flow: *flow, mark, ..first };
        let next = after(&mut packet).unanswered();
        let fate = next.fate();
        outcomes.then(next);
        if fate == Fate::Dropped {
            return (packet, outcomes);
        }
    }
    (first, outcomes)
}

/// Puts to packets what rules before translation do; false when none of them gets there.
pub(super) fn before_translation(followed: &mut Followed, outcomes: Outcomes, packet: &Packet) -> bool {
    let (share, how) = match outcomes.fate() {
        Fate::Passes => return true,
        Fate::Unsure => {
            unsure(&mut followed.unsure, &outcomes, packet);
            return true;
        }
        Fate::Dropped => (&mut followed.shares.silent, "dropped"),
        Fate::Refused => (&mut followed.shares.refused, "refused"),
    };
    *share = 1.0;
    told(&mut followed.strange, outcomes, packet, how);
    false
}

/// Tells what ends the packet's way: the first that does for certain comes last.
pub(super) fn told(strange: &mut Vec<(Place, String)>, outcomes: Outcomes, packet: &Packet, how: &str) {
    if let Some((place, word)) = outcomes.enders.into_iter().next_back() {
        strange.push((place, format!("{word}: packets {} are {how}", packet.words())));
    }
}

/// What `NodeLocal DNSCache` says of its rules, in both modes (`cmd/node-cache/app` of kubernetes/dns, since 1.22).
pub(super) const NODE_LOCAL_DNS: &str = "NodeLocal DNS Cache";

/// That such a rule has packets to the address of the cluster's DNS delivered at the node itself.
pub(super) fn at_node_local_dns(to: impl std::fmt::Display, place: &Place) -> Open {
    let question = format!(
        "are answered: by {}, NodeLocal DNSCache takes them at the node before the proxy does, and what it answers is in no dump",
        rule_words(place)
    );
    Open::new(format!("to {to}"), question)
}

/// Tells what nobody knows.
pub(super) fn unsure(found: &mut Vec<Open>, outcomes: &Outcomes, packet: &Packet) {
    const MOST: usize = 3;
    let ends = outcomes.enders.iter().map(|(place, word)| format!("{} ({word})", rule_words(place)));
    let mut all: Vec<String> = outcomes.unsure.iter().map(rule_words).chain(ends).collect();
    all.dedup();
    let mut named: Vec<String> = Vec::new();
    for one in all {
        if !named.iter().any(|known| one.starts_with(known.as_str())) {
            named.push(one);
        }
    }
    let more = named.len().saturating_sub(MOST);
    named.truncate(MOST);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let question = format!(
        "pass: that depends on interfaces, marks, sources or sets that no dump tells, in {}{more}",
        named.join(", ")
    );
    found.push(Open::new(packet.words(), question));
}

pub(super) fn rule_words(place: &Place) -> String {
    let Place { table, chain, .. } = place;
    match (place.position, place.line, place.handle) {
        (_, Some(line), _) => format!("{table} {chain} (line {line})"),
        (_, _, Some(handle)) => format!("{table} {chain} (handle {handle})"),
        (Some(position), ..) => format!("{table} {chain} (rule {position})"),
        _ => format!("{table} {chain}"),
    }
}
