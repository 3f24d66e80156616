//! Rules, peers and whole policies that may be deleted without changing any verdict: others say the same already, or
//! decide before they are asked.
//!
//! Source: the rules of `NetworkPolicy` are a union; of the other kinds the first match of a tier decides. Invariant: told
//! only where it follows from the selectors, not from which pods happen to be there, and everything that is told may be
//! deleted together. A policy without rules that isolates is no dead weight unless another one without rules does the
//! same: to deny by default in an object of its own is good style.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use super::finding::Finding;
use super::ground::{DIRECTIONS, Ground, is_written, rules};
use super::implies::{self, Ports};
use super::peers::are_halves;
use crate::diagnostic::{Diagnostic, code};
use crate::model::policy::{Policy, PolicyKind, PolicyTier, Rule};

/// Most rules that are named as the reason.
const MOST_NAMES: usize = 3;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let mut places: BTreeMap<(PolicyTier, Option<&str>), Vec<u32>> = BTreeMap::new();
    for (index, policy) in (0..).zip(&ground.policies.list) {
        places.entry((policy.tier, policy.id.namespace.as_deref())).or_default().push(index);
    }
    for ((tier, _), policies) in places {
        let mut place = Place::new(ground, &policies);
        let dead = place.find_dead();
        let whole =
            if tier == PolicyTier::NetworkPolicy { place.dead_policies(&dead) } else { BTreeMap::new() };
        findings.extend(whole.values().cloned());
        let rest = dead.into_iter().filter(|one| !whole.contains_key(&place.rules[one.rule].policy));
        findings.extend(rest.map(|one| place.finding(&one)));
        for rule in place.rules.iter().filter(|rule| rule.alive) {
            findings.extend(elements(ground, &ground.policies.list[rule.policy as usize], rule.rule));
        }
    }
}

/// A rule among those that can make each other superfluous.
struct Candidate<'a> {
    policy: u32,
    direction: Direction,
    rule: &'a Rule,
    ports: Ports,
    alive: bool,
}

/// A rule that others make superfluous.
struct Dead {
    rule: usize,
    because: Vec<usize>,
}

/// The policies of one tier, and of one namespace where they have one, with their rules in order.
struct Place<'g, 'a> {
    ground: &'g Ground<'a>,
    rules: Vec<Candidate<'a>>,
    /// For each policy those whose subject holds all of its pods, itself included.
    around: BTreeMap<u32, BTreeSet<u32>>,
}

impl<'g, 'a> Place<'g, 'a> {
    fn new(ground: &'g Ground<'a>, policies: &[u32]) -> Self {
        let policies_list: &'a [Policy] = &ground.policies.list;
        let policy = |index: u32| &policies_list[index as usize];
        let mut order = policies.to_vec();
        order.sort_by_key(|index| (policy(*index).priority.is_none(), policy(*index).priority, *index));
        let mut candidates = Vec::new();
        for index in &order {
            for (direction, ..) in DIRECTIONS {
                let of_policy: &'a [Rule] = rules(policy(*index), direction);
                candidates.extend(of_policy.iter().map(|rule| Candidate {
                    policy: *index,
                    direction,
                    rule,
                    ports: Ports::of(rule),
                    alive: true,
                }));
            }
        }
        let is_around = |inner: u32, outer: u32| {
            inner == outer || implies::pods(ground.cluster, &policy(inner).subject, &policy(outer).subject)
        };
        let around = policies.iter().map(|inner| {
            let outer = policies.iter().copied().filter(|outer| is_around(*inner, *outer));
            (*inner, outer.collect())
        });
        Self { ground, around: around.collect(), rules: candidates }
    }

    fn policy(&self, index: u32) -> &'a Policy {
        &self.ground.policies.list[index as usize]
    }

    /// Takes dead rules away, the last first, so that of two that are the same the first stays.
    fn find_dead(&mut self) -> Vec<Dead> {
        let mut dead = Vec::new();
        for rule in (0..self.rules.len()).rev() {
            if let Some(because) = self.covered(rule) {
                self.rules[rule].alive = false;
                dead.push(Dead { rule, because });
            }
        }
        // Who was named may have been taken away since; whatever held it holds this one too.
        for one in &mut dead {
            if let Some(because) = self.covered(one.rule) {
                one.because = because;
            }
        }
        dead
    }

    /// The living rules that leave nothing for this one; `None` where there are not enough.
    fn covered(&self, index: usize) -> Option<Vec<usize>> {
        let this = &self.rules[index];
        let around = &self.around[&this.policy];
        let others: Vec<usize> = (0..self.rules.len())
            .filter(|other| {
                let rule = &self.rules[*other];
                *other != index
                    && rule.alive
                    && rule.direction == this.direction
                    && around.contains(&rule.policy)
                    && self.counts(*other, index)
            })
            .collect();
        let mut because = BTreeSet::new();
        let Some(peers) = &this.rule.peers else {
            let everybody = others.into_iter().filter(|other| self.rules[*other].rule.peers.is_none());
            self.ports_covered(&this.ports, everybody, &mut because)?;
            return Some(because.into_iter().collect());
        };
        if peers.is_empty() || this.rule.ports.as_ref().is_some_and(Vec::is_empty) {
            // It fails closed, or can match nothing; that was said elsewhere.
            return None;
        }
        for peer in peers {
            let holds = |other: &usize| {
                self.rules[*other].rule.peers.as_ref().is_none_or(|wide| {
                    wide.iter().any(|wide| implies::peer(self.ground.cluster, &peer.matches, &wide.matches))
                })
            };
            let holding = others.iter().copied().filter(holds);
            self.ports_covered(&this.ports, holding, &mut because)?;
        }
        Some(because.into_iter().collect())
    }

    /// True when a rule is asked no later than another, so that its match leaves nothing over.
    fn counts(&self, other: usize, this: usize) -> bool {
        let (one, two) = (self.policy(self.rules[other].policy), self.policy(self.rules[this].policy));
        if one.tier == PolicyTier::NetworkPolicy {
            return true;
        }
        if one.id == two.id {
            return other < this;
        }
        // With equal priorities it is open who is asked first.
        one.priority.zip(two.priority).is_some_and(|(one, two)| one < two)
    }

    /// One rule that has all of the ports, or several that have them together.
    fn ports_covered(
        &self,
        wanted: &Ports,
        rules: impl Iterator<Item = usize>,
        because: &mut BTreeSet<usize>,
    ) -> Option<()> {
        let rules: Vec<usize> = rules.filter(|rule| self.rules[*rule].ports.meet(wanted)).collect();
        if let Some(one) = rules.iter().find(|rule| wanted.are_within(&self.rules[**rule].ports)) {
            because.insert(*one);
            return Some(());
        }
        let mut all = Ports::default();
        for rule in &rules {
            all.add(&self.rules[*rule].ports);
        }
        if rules.is_empty() || !wanted.are_within(&all) {
            return None;
        }
        because.extend(rules);
        Some(())
    }

    /// Policies of which nothing is left, and that isolate nobody whom another does not isolate.
    fn dead_policies(&self, dead: &[Dead]) -> BTreeMap<u32, Finding> {
        let mut found: BTreeMap<u32, Finding> = BTreeMap::new();
        for (index, around) in self.around.iter().rev() {
            let policy = self.policy(*index);
            let is_bare = |policy: &Policy| {
                DIRECTIONS.iter().all(|(direction, ..)| rules(policy, *direction).is_empty())
            };
            let mut of_policy = self.rules.iter().filter(|rule| rule.policy == *index).peekable();
            let bare = of_policy.peek().is_none();
            if of_policy.any(|rule| rule.alive) {
                continue;
            }
            // Who isolates the same pods when this one is gone: for one without rules, another without rules.
            let isolates = |direction: Direction, other: &Policy| match direction {
                Direction::Ingress => other.ingress.is_some(),
                Direction::Egress => other.egress.is_some(),
            };
            let mut instead: BTreeSet<u32> = BTreeSet::new();
            let replaced = DIRECTIONS.iter().filter(|(direction, ..)| isolates(*direction, policy)).all(
                |(direction, ..)| {
                    let other = around.iter().find(|other| {
                        **other != *index
                            && !found.contains_key(*other)
                            && isolates(*direction, self.policy(**other))
                            && (!bare || is_bare(self.policy(**other)))
                    });
                    instead.extend(other);
                    other.is_some()
                },
            );
            if !replaced || instead.is_empty() {
                continue;
            }
            let because = dead.iter().filter(|one| self.rules[one.rule].policy == *index);
            let because = because.flat_map(|one| &one.because).map(|rule| self.rules[*rule].policy);
            let others: BTreeSet<u32> = because.chain(instead).filter(|other| other != index).collect();
            let names: Vec<String> = others.iter().map(|other| self.policy(*other).id.to_string()).collect();
            let verb = if names.len() == 1 { "says" } else { "say" };
            let message = format!("this policy changes nothing: {} {verb} all of it already", cut(&names));
            let hint = "delete it: no verdict changes, whatever pods there will be";
            let diagnostic = Diagnostic::warning(code::POLICY_REDUNDANT, message).with_hint(hint);
            let pods = self.ground.subjects(self.ground.select(&policy.subject)).count();
            found.insert(*index, Finding::at(policy, "", diagnostic).pods(pods));
        }
        found
    }

    fn finding(&self, dead: &Dead) -> Finding {
        let this = &self.rules[dead.rule];
        let policy = self.policy(this.policy);
        let names: Vec<String> = dead
            .because
            .iter()
            .map(|rule| {
                let other = &self.rules[*rule];
                if other.policy == this.policy {
                    return other.rule.path.to_string();
                }
                format!("{} {}", self.policy(other.policy).id, other.rule.path)
            })
            .collect();
        let names = cut(&names);
        let one = dead.because.len() == 1;
        let pods = self.ground.subjects(self.ground.select(&policy.subject)).count();
        let kind = policy.id.kind;
        if kind.is_ordered()
            && dead.because.iter().any(|rule| self.rules[*rule].rule.action != this.rule.action)
        {
            let word = kind.action_word(this.rule.action);
            let message = format!(
                "this {word} never takes effect: {names} {} all that it matches first",
                if one { "takes" } else { "take" }
            );
            let hint = "move it before them, give its policy a lower priority, or delete it";
            let diagnostic = Diagnostic::warning(code::RULE_SHADOWED, message).with_hint(hint);
            return Finding::at(policy, &this.rule.path, diagnostic).pods(pods);
        }
        let message = if kind.is_ordered() {
            format!("this rule is never needed: {names} {} the same first", if one { "does" } else { "do" })
        } else {
            format!(
                "this rule adds nothing: {names} {} all of it already",
                if one { "admits" } else { "admit" }
            )
        };
        let is_last = rules(policy, this.direction).len() == 1;
        let hint = if this.direction == Direction::Egress
            && is_last
            && !is_written(policy, "spec.policyTypes[0]")
        {
            "delete it, and write `policyTypes` so that the policy still isolates for egress: no verdict changes"
        } else {
            "delete it: no verdict changes, whatever pods there will be"
        };
        let diagnostic = Diagnostic::warning(code::RULE_REDUNDANT, message).with_hint(hint);
        Finding::at(policy, &this.rule.path, diagnostic).pods(pods)
    }
}

/// Peers and ports of one rule inside of others.
fn elements(ground: &Ground<'_>, policy: &Policy, rule: &Rule) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |path: &str, other: &str| {
        let field = other.rsplit('.').next().unwrap_or(other);
        let message = format!("this element adds nothing: `{field}` holds all of it already");
        let diagnostic = Diagnostic::note(code::ELEMENT_REDUNDANT, message).with_hint("delete it");
        found.push(Finding::at(policy, path, diagnostic));
    };
    let peers = rule.peers.as_deref().unwrap_or_default();
    for (index, peer) in peers.iter().enumerate() {
        let holds = |(position, other): &(usize, &crate::model::policy::Peer)| {
            let inside = |a, b| implies::peer(ground.cluster, a, b);
            let is_torn = policy.id.kind == PolicyKind::NetworkPolicy
                && position.abs_diff(index) == 1
                && are_halves(policy, &peers[(*position).min(index)], &peers[(*position).max(index)]);
            *position != index
                && !is_torn
                && inside(&peer.matches, &other.matches)
                // Of two that are the same the first stays.
                && (*position < index || !inside(&other.matches, &peer.matches))
        };
        if let Some((_, other)) = peers.iter().enumerate().find(holds) {
            say(&peer.path, &other.path);
        }
    }
    let ports = rule.ports.as_deref().unwrap_or_default();
    let sets: Vec<Ports> = ports
        .iter()
        .map(|port| {
            let ports = Some(vec![port.clone()]);
            Ports::of(&Rule { ports, peers: None, ..rule.clone() })
        })
        .collect();
    for (index, port) in ports.iter().enumerate() {
        let holds = |position: &usize| {
            *position != index
                && ports[*position].path != port.path
                && sets[index].are_within(&sets[*position])
                && (*position < index || !sets[*position].are_within(&sets[index]))
        };
        // A name without a protocol stands here once per protocol: only all of them together are superfluous.
        let like = ports.iter().filter(|other| other.path == port.path).count();
        if like == 1
            && let Some(other) = (0..ports.len()).find(holds)
        {
            say(&port.path, &ports[other].path);
        }
    }
    found
}

/// The first few, and how many more.
fn cut(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
