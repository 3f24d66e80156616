//! The forms of rules that a proxy writes in a place, and what is there in place of them.
//!
//! Invariant: every rule of a chain of the proxy's is one of the forms of that place, by meaning and not by text, or it is
//! told: what is not there is missing, what is like a form and not the same is wrong, all else is too much. There is no
//! third way for a rule to pass. Knows nothing of Services: see [`super::wanted`].

use super::beyond::mark;
use super::dump::{Not, Rule};
use super::follow::place;
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Probabilities are printed with eleven digits of a number of 31 bits.
const TOLERANCE: f64 = 1e-8;

/// How often a rule is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Once,
    /// Only with some flag of the proxy, or of the kernel.
    Optional,
    /// At least once: more of the same change nothing, and more than one thing may write it.
    Many,
}

/// One rule as the proxy writes it.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) rule: Rule,
    pub(super) kind: Kind,
    /// What a fault is about.
    pub(super) object: String,
    pub(super) endpoint: Option<String>,
    /// What follows when it is not there.
    pub(super) missing: String,
    /// What follows when it is another.
    pub(super) wrong: String,
    /// Those of lower ranks come first.
    pub(super) rank: u8,
    pub(super) presence: Presence,
    /// False where one that is like it is still another thing: of two networks neither is the other one gone wrong.
    pub(super) pairs: bool,
}

impl Form {
    pub(super) fn new(rank: u8, kind: Kind, rule: Rule, missing: impl Into<String>) -> Self {
        Self {
            object: rule.target.clone().unwrap_or_default(),
            rule,
            kind,
            endpoint: None,
            missing: missing.into(),
            wrong: String::new(),
            rank,
            presence: Presence::Once,
            pairs: true,
        }
    }

    /// A rule in its place that is like it.
    fn replaced_by(&self, rule: &Rule, place: Place) -> Fault {
        let follows = if self.wrong.is_empty() { String::new() } else { format!("{}: ", self.wrong) };
        let detail = format!("{follows}{}", difference(rule, &self.rule));
        let mut fault = self.fault(Difference::Wrong, place, detail);
        if self.kind == Kind::Frontend && rule.target != self.rule.target {
            fault.kind = Kind::FrontendTarget;
            fault.object = rule.target.clone().unwrap_or_default();
        }
        if self.kind == Kind::Empty && rule.target == self.rule.target {
            let remembers = Rule { recent: self.rule.recent.clone(), ..rule.clone() };
            fault.kind = if is_same(&remembers, &self.rule) { Kind::Affinity } else { Kind::BackendTarget };
        }
        fault
    }

    fn fault(&self, difference: Difference, place: Place, detail: String) -> Fault {
        Fault {
            difference,
            kind: self.kind,
            object: self.object.clone(),
            place,
            endpoint: self.endpoint.clone(),
            detail,
        }
    }
}

/// A place in which rules are compared.
pub(super) struct Of<'a> {
    pub(super) table: &'a str,
    pub(super) chain: &'a str,
    /// What rules are that are none of the forms, and what follows.
    pub(super) strangers: (Kind, &'a str),
}

impl Of<'_> {
    /// Compares; the answer is the rules that are of a form, with its rank, in their order.
    pub(super) fn compare<'r>(
        &self,
        forms: &[Form],
        found: impl IntoIterator<Item = &'r Rule>,
        faults: &mut Vec<Fault>,
    ) -> Vec<(&'r Rule, u8)> {
        let (table, chain) = (self.table, self.chain);
        let mut free = vec![true; forms.len()];
        let mut known = Vec::new();
        let mut others = Vec::new();
        for rule in found.into_iter().filter(|rule| decides(rule)) {
            let of = |at: &usize| {
                let form: &Form = &forms[*at];
                (free[*at] || form.presence == Presence::Many) && is_same(rule, &form.rule)
            };
            match (0..forms.len()).find(of) {
                Some(at) => {
                    free[at] = false;
                    known.push((rule, forms[at].rank));
                }
                None => others.push(rule),
            }
        }
        for rule in others {
            let likeness = |at: &usize| likeness(rule, &forms[*at].rule);
            let left =
                (0..forms.len()).rev().filter(|at| free[*at] && forms[*at].pairs && likeness(at) >= ALIKE);
            let Some(at) = left.max_by_key(likeness) else {
                faults.push(self.stranger(rule, forms));
                continue;
            };
            free[at] = false;
            known.push((rule, forms[at].rank));
            faults.push(forms[at].replaced_by(rule, place(table, chain, rule)));
        }
        for (form, _) in
            forms.iter().zip(free).filter(|(form, free)| *free && form.presence != Presence::Optional)
        {
            faults.push(form.fault(Difference::Missing, Place::within(table, chain), form.missing.clone()));
        }
        known.sort_by_key(|(rule, _)| rule.position);
        known
    }

    fn stranger(&self, rule: &Rule, forms: &[Form]) -> Fault {
        let (kind, follows) = self.strangers;
        let first = forms.iter().any(|form| form.rule.target == rule.target);
        let what = if first {
            "one more rule than the proxy writes there"
        } else {
            "a rule that no proxy writes there"
        };
        Fault {
            difference: Difference::Extra,
            kind,
            object: rule.target.clone().unwrap_or_default(),
            place: place(self.table, self.chain, rule),
            endpoint: rule.to_destination.map(|to| to.to_string()),
            detail: format!(
                "{what} ({}){}{follows}",
                words(rule).join(" "),
                if follows.is_empty() { "" } else { ": " }
            ),
        }
    }

    /// Tells rules that are not in their place in the order: the fewest that would have to move, of equals the later.
    pub(super) fn order(&self, rules: &[(&Rule, u8)], forms: &[Form], faults: &mut Vec<Fault>) {
        if rules.is_sorted_by_key(|(_, rank)| rank) {
            return;
        }
        for at in misplaced(rules) {
            let Some((rule, rank)) = rules.get(at) else { continue };
            let form = forms.iter().find(|form| form.rank == *rank && form.rule.target == rule.target);
            let form = form.or_else(|| forms.iter().find(|form| form.rank == *rank));
            let Some(form) = form else { continue };
            faults.push(Fault {
                object: rule.target.clone().unwrap_or_default(),
                ..form.fault(
                    Difference::Wrong,
                    place(self.table, self.chain, rule),
                    format!("it is not in its place in the order: {}", form.missing),
                )
            });
        }
    }
}

/// The places of all that are not in the longest row of ranks that do not fall.
fn misplaced(rules: &[(&Rule, u8)]) -> Vec<usize> {
    // From the end: the longest row that starts at each, and what comes next in it.
    let mut longest: Vec<(usize, Option<usize>)> = vec![(1, None); rules.len()];
    for at in (0..rules.len()).rev() {
        for next in at + 1..rules.len() {
            if rules[next].1 >= rules[at].1 && longest[next].0 + 1 > longest[at].0 {
                longest[at] = (longest[next].0 + 1, Some(next));
            }
        }
    }
    // The first of equals: what is late then is the one that moves.
    let mut kept = vec![false; rules.len()];
    let mut next = (0..rules.len()).rev().max_by_key(|at| longest[*at].0);
    while let Some(at) = next {
        kept[at] = true;
        next = longest[at].1;
    }
    kept.iter().enumerate().filter(|(_, kept)| !**kept).map(|(at, _)| at).collect()
}

/// Whether a rule does anything; what only counts or writes a log may be anywhere.
pub(super) fn decides(rule: &Rule) -> bool {
    !matches!(rule.target.as_deref(), None | Some("LOG" | "NFLOG" | "TRACE")) || rule.recent.is_some()
}

/// Whether two rules do the same, whatever they say of themselves.
pub(super) fn is_same(found: &Rule, wanted: &Rule) -> bool {
    let Rule {
        line: _,
        position: _,
        comment: _,
        source,
        destination,
        protocol,
        destination_port,
        probability,
        from_node,
        to_node,
        mark: asked,
        set_mark,
        states,
        recent,
        target,
        to_destination,
        other,
    } = found;
    let shares = match (probability, wanted.probability) {
        (Some(found), Some(wanted)) => (found - wanted).abs() < TOLERANCE,
        (found, wanted) => found.is_none() && wanted.is_none(),
    };
    *target == wanted.target
        && *protocol == wanted.protocol
        && *destination_port == wanted.destination_port
        && *destination == wanted.destination
        && *source == wanted.source
        && shares
        && (*from_node, *to_node) == (wanted.from_node, wanted.to_node)
        && is_same_mark(asked.as_ref(), wanted.mark.as_ref())
        && has_same_effect(set_mark.as_deref(), wanted.set_mark.as_deref())
        && is_same_state(states.as_ref(), wanted.states.as_ref())
        && *recent == wanted.recent
        && *to_destination == wanted.to_destination
        && *other == wanted.other
}

fn is_same_mark(found: Option<&Not<String>>, wanted: Option<&Not<String>>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) => {
            found.negated == wanted.negated
                && (found.value == wanted.value
                    || mark(&found.value).is_some_and(|of| mark(&wanted.value) == Some(of)))
        }
        (found, wanted) => found.is_none() && wanted.is_none(),
    }
}

fn has_same_effect(found: Option<&str>, wanted: Option<&str>) -> bool {
    found == wanted
        || found
            .zip(wanted)
            .is_some_and(|(found, wanted)| mark(found).is_some_and(|of| mark(wanted) == Some(of)))
}

fn is_same_state(found: Option<&Not<String>>, wanted: Option<&Not<String>>) -> bool {
    let of = |states: &Not<String>| {
        let mut all: Vec<String> = states.value.split(',').map(str::to_ascii_uppercase).collect();
        all.sort_unstable();
        (states.negated, all)
    };
    found.map(of) == wanted.map(of)
}

/// The least likeness at which one rule is taken for another that went wrong.
const ALIKE: usize = 4;

/// How much a rule is like another.
fn likeness(found: &Rule, wanted: &Rule) -> usize {
    let key = |rule: &Rule| (rule.destination.clone(), rule.protocol, rule.destination_port);
    let has_key = wanted.destination_port.is_some();
    let mut all = 0;
    let mut add = |is: bool, weight| all += if is { weight } else { 0 };
    add(found.target == wanted.target, 4);
    add(has_key && key(found) == key(wanted), 4);
    add(has_key && found.destination == wanted.destination && found.destination.is_some(), 1);
    add(has_key && found.destination_port == wanted.destination_port, 1);
    add(found.source == wanted.source, 1);
    add(found.recent.is_some() == wanted.recent.is_some(), 1);
    add(found.from_node == wanted.from_node, 1);
    add(found.states == wanted.states, 1);
    add(found.mark.is_some() == wanted.mark.is_some(), 1);
    add(has_same_effect(found.set_mark.as_deref(), wanted.set_mark.as_deref()), 1);
    // What has nothing in common but what it lacks.
    if found.target != wanted.target && !(has_key && key(found) == key(wanted)) { 0 } else { all }
}

/// What a rule says and what it should.
pub(super) fn difference(found: &Rule, wanted: &Rule) -> String {
    let (found, wanted) = (words(found), words(wanted));
    let only = |these: &[String], those: &[String]| -> String {
        let only: Vec<&str> = these.iter().filter(|word| !those.contains(word)).map(String::as_str).collect();
        only.join(" ")
    };
    match (only(&found, &wanted), only(&wanted, &found)) {
        (has, lacks) if lacks.is_empty() => format!("it says {has}, which the proxy never writes there"),
        (has, lacks) if has.is_empty() => format!("it does not say {lacks}, as the proxy writes there"),
        (has, lacks) => format!("it says {has} where the proxy writes {lacks}"),
    }
}

/// What a rule asks for and does, as `iptables-save` has it.
pub(super) fn words(rule: &Rule) -> Vec<String> {
    let mut all = Vec::new();
    let not = |negated: bool| if negated { "! " } else { "" };
    let mut add = |word: Option<String>| all.extend(word);
    add(rule.source.as_ref().map(|net| format!("{}-s {}", not(net.negated), net.value)));
    add(rule.destination.as_ref().map(|net| format!("{}-d {}", not(net.negated), net.value)));
    add(rule.protocol.map(|protocol| format!("-p {}", protocol.lower())));
    add(rule.destination_port.map(|port| format!("--dport {port}")));
    add(rule.from_node.then(|| "--src-type LOCAL".to_owned()));
    add(rule.to_node.then(|| "--dst-type LOCAL".to_owned()));
    add(rule.mark.as_ref().map(|mark| format!("{}--mark {}", not(mark.negated), mark.value)));
    add(rule.states.as_ref().map(|states| format!("{}--ctstate {}", not(states.negated), states.value)));
    if let Some(recent) = &rule.recent {
        add(recent.set.then(|| "--set".to_owned()));
        add(recent.check.then(|| "--rcheck".to_owned()));
        add(recent.seconds.map(|seconds| format!("--seconds {seconds}")));
        add(recent.reap.then(|| "--reap".to_owned()));
        add(Some(format!("--name {}", recent.name)));
    }
    add(rule.probability.map(|share| format!("--probability {share:.4}")));
    add(Some(rule.other.join(" ")).filter(|words| !words.is_empty()));
    add(rule.target.as_ref().map(|target| format!("-j {target}")));
    add(rule.set_mark.as_ref().map(|mark| format!("--set-xmark {mark}")));
    add(rule.to_destination.map(|to| format!("--to-destination {to}")));
    all
}
