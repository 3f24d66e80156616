//! Why a pair changed: for each direction the rule, or the isolation, that came or went.
//!
//! A port that is gained was denied before and is admitted now, so something at a side that denied it is different:
//! a rule admits that did not, a `Deny` is gone, or nothing isolates any more. A port that is lost is the same seen
//! from the other end of time.
//!
//! Invariant: every gained or lost port is in some cause. It tells what decided in each state, not what somebody
//! meant to change; with several pods per workload it looks at one case of each verdict.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;
use serde::Serialize;

use super::State;
use super::blame::Blame;
use crate::model::port::{PortRange, Protocol};
use crate::policy::change::Verdict;
use crate::policy::classes::ClassIndex;
use crate::policy::connections::Allowed;
use crate::policy::decide::Decision;
use crate::policy::provenance::{PolicyRef, RuleRef};
use crate::policy::ruleset::Table;

/// Which way ports went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// Not allowed before.
    Gained,
    /// Not allowed any more.
    Lost,
}

/// One cause of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// Which way the ports went.
    pub change: Trend,
    /// The ports.
    pub ports: Allowed,
    /// `egress` or `ingress`: the side at which it was decided; `None` when it was no policy's decision.
    pub direction: Option<&'static str>,
    /// The rule that caused it, as the state has it in which it acts.
    pub rule: Option<RuleRef>,
    /// Where no rule did: the policies that isolate, or whose order is open.
    pub policies: Vec<PolicyRef>,
    /// What the rule or these policies do, in words: `admits it; the rule is new`.
    pub reason: String,
}

/// A case of a pair: at each side the ruleset that applies and the class of the peer; `None` where none applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) egress: Option<(u32, ClassIndex)>,
    pub(super) ingress: Option<(u32, ClassIndex)>,
}

impl Candidate {
    fn side(self, direction: Direction) -> Option<(u32, ClassIndex)> {
        match direction {
            Direction::Egress => self.egress,
            Direction::Ingress => self.ingress,
        }
    }
}

/// What decides at one side.
pub(super) struct Decided<'a> {
    /// `None` where no policy acts.
    pub(super) by: Option<(&'a Table, Decision)>,
}

impl Decided<'_> {
    pub(super) fn denies(&self) -> bool {
        self.by.as_ref().is_some_and(|(_, decision)| decision.verdict == Verdict::Deny)
    }
}

const SIDES: [(Direction, &str); 2] = [(Direction::Egress, "egress"), (Direction::Ingress, "ingress")];

/// Looks for causes in two states.
pub(super) struct Finder<'a> {
    pub(super) states: [State<'a>; 2],
}

impl Finder<'_> {
    /// A workload that only one of the states has.
    pub(super) fn of_novelty(before: &Allowed, after: &Allowed, reason: &str) -> Vec<Cause> {
        let [lost, gained] = [before.without(after), after.without(before)];
        let cause = |change, ports: Allowed| Cause {
            change,
            ports,
            direction: None,
            rule: None,
            policies: Vec::new(),
            reason: reason.to_owned(),
        };
        [(Trend::Gained, gained), (Trend::Lost, lost)]
            .into_iter()
            .filter(|(_, ports)| !ports.is_empty())
            .map(|(trend, ports)| cause(trend, ports))
            .collect()
    }

    /// Every cause, gains first, in the order of the first port that each explains.
    pub(super) fn causes(
        &self,
        cases: &[Vec<Candidate>; 2],
        before: &Allowed,
        after: &Allowed,
    ) -> Vec<Cause> {
        let mut found: Vec<(Cause, Vec<(Protocol, PortRange)>)> = Vec::new();
        for (change, ports) in [(Trend::Gained, after.without(before)), (Trend::Lost, before.without(after))]
        {
            for (protocol, piece) in self.pieces(cases, &ports) {
                for cause in self.of_port(cases, change, protocol, piece.start) {
                    match found.iter_mut().find(|(known, _)| *known == cause) {
                        Some((_, ranges)) => ranges.push((protocol, piece)),
                        None => found.push((cause, vec![(protocol, piece)])),
                    }
                }
            }
        }
        let with_ports = |(cause, ranges)| Cause { ports: Allowed::from_ranges(ranges), ..cause };
        found.into_iter().map(with_ports).collect()
    }

    /// The ports in pieces that no table of either state cuts.
    fn pieces(&self, cases: &[Vec<Candidate>; 2], ports: &Allowed) -> Vec<(Protocol, PortRange)> {
        let mut starts: BTreeMap<Protocol, BTreeSet<u16>> = BTreeMap::new();
        for (side, cases) in cases.iter().enumerate() {
            let rulesets: BTreeSet<(u32, bool)> = cases
                .iter()
                .flat_map(|case| {
                    [case.egress.map(|(it, _)| (it, true)), case.ingress.map(|(it, _)| (it, false))]
                })
                .flatten()
                .collect();
            for (index, egress) in rulesets {
                let direction = if egress { Direction::Egress } else { Direction::Ingress };
                let table = self.states[side].rulesets.list[index as usize].table(direction);
                for range in table.iter().flat_map(|table| &table.ports.list).flat_map(|class| &class.ranges)
                {
                    starts.entry(range.protocol).or_default().insert(range.start);
                }
            }
        }
        let none = BTreeSet::new();
        let mut pieces = Vec::new();
        for protocol in Protocol::ALL {
            let starts = starts.get(&protocol).unwrap_or(&none);
            for range in ports.of(protocol) {
                let mut start = range.start;
                for next in starts.iter().filter(|next| range.start < **next && **next <= range.end) {
                    pieces.push((protocol, PortRange { start, end: next - 1 }));
                    start = *next;
                }
                pieces.push((protocol, PortRange { start, end: range.end }));
            }
        }
        pieces
    }

    fn decided(
        &self,
        side: usize,
        case: Candidate,
        direction: Direction,
        port: (Protocol, u16),
    ) -> Decided<'_> {
        let by = case.side(direction).and_then(|(ruleset, class)| {
            let table = self.states[side].rulesets.list[ruleset as usize].table(direction)?;
            let row = &table.rows[table.row(class) as usize];
            let holds = |range: &crate::policy::change::ProtocolRange| {
                range.protocol == port.0 && range.start <= port.1 && port.1 <= range.end
            };
            let index = table.ports.list.iter().position(|of| of.ranges.iter().any(holds))?;
            Some((table, table.decide(row, index)))
        });
        Decided { by }
    }

    /// The causes for one port, without ports.
    fn of_port(
        &self,
        cases: &[Vec<Candidate>; 2],
        change: Trend,
        protocol: Protocol,
        port: u16,
    ) -> Vec<Cause> {
        let (denying, admitting) = match change {
            Trend::Gained => (0, 1),
            Trend::Lost => (1, 0),
        };
        let decided = |side, case| SIDES.map(|(way, _)| self.decided(side, case, way, (protocol, port)));
        let admits = |case: &&Candidate| !decided(admitting, **case).iter().any(Decided::denies);
        let nothing = |reason: &str| {
            vec![Cause {
                change,
                ports: Allowed::default(),
                direction: None,
                rule: None,
                policies: Vec::new(),
                reason: reason.to_owned(),
            }]
        };
        let (Some(open), Some(closed)) = (cases[admitting].iter().find(admits), cases[denying].first())
        else {
            return nothing("the pods' nodes or addresses are not as before");
        };
        let (open, closed) = (decided(admitting, *open), decided(denying, *closed));
        let causes: Vec<Cause> = SIDES
            .into_iter()
            .zip(open.iter().zip(&closed))
            .filter_map(|((_, direction), (open, closed))| {
                let (table, decision) = closed.by.as_ref().filter(|_| closed.denies())?;
                let blame = Blame { states: self.states, change, admitting, denying };
                let (rule, policies, reason) = blame.find(open, table, decision);
                let ports = Allowed::default();
                Some(Cause { change, ports, direction: Some(direction), rule, policies, reason })
            })
            .collect();
        if causes.is_empty() { nothing("the pods are not as before") } else { causes }
    }
}
