//! Comparing the rules of a chain with those that the proxy writes there.
//!
//! Invariant: by their texts, and in their order: a rule that is not one of these is named with what is written in its
//! place, and so is one that another of the proxy's own stands before that should come after it.

use super::dump::Dump;
use super::follow::in_chain;
use super::reading::Rule;
use super::written::Written;
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Compares them. What was found in a place before, and said with more words, is not said again.
pub(super) fn compare(dump: &Dump, chain: &str, written: &[Written], faults: &mut Vec<Fault>) {
    let found = dump.chains.get(chain).map_or(&[][..], Vec::as_slice);
    let is = |rule: &Rule, written: &Written| {
        rule.text == written.text || written.or.as_ref().is_some_and(|or| *or == rule.text)
    };
    if found.len() == written.len() && found.iter().zip(written).all(|(rule, written)| is(rule, written)) {
        return;
    }
    // Which is which: each found one is that of the first of its text that is not taken yet.
    let mut of: Vec<Option<usize>> = vec![None; found.len()];
    let mut taken = vec![false; written.len()];
    for (at, rule) in found.iter().enumerate() {
        let of_text = written.iter().enumerate().find(|(index, written)| !taken[*index] && is(rule, written));
        if let Some((index, _)) = of_text {
            taken[index] = true;
            of[at] = Some(index);
        }
    }
    let told = |faults: &[Fault], position: usize| {
        faults.iter().any(|fault| fault.place.chain == chain && fault.place.position == Some(position))
    };
    let mut missing: Vec<usize> = (0..written.len()).filter(|index| !taken[*index]).collect();
    let mut new = Vec::new();
    for (at, rule) in found.iter().enumerate() {
        let place = in_chain(chain, at + 1, rule);
        let Some(index) = of[at] else {
            // The one that should be in its place: the most like it of those that are not there.
            let most = missing.iter().enumerate().max_by_key(|(_, index)| {
                (likeness(&written[**index].text, &rule.text), std::cmp::Reverse(at.abs_diff(**index)))
            });
            let instead = most.map(|(at, _)| at).map(|at| missing.remove(at));
            if !told(faults, at + 1) {
                new.push(otherwise(place, rule, instead.map(|index| &written[index])));
            }
            continue;
        };
        let comes_after = |before: &usize| {
            of[*before].is_some_and(|other| other > index) && !are_free(&written[index], &found[*before])
        };
        if let Some(before) = (0..at).find(comes_after) {
            new.push(Fault {
                detail: format!(
                    "no packet comes to this rule in time, as rule {} stands before it, which the proxy writes after it: {}",
                    before + 1,
                    written[index].lost
                ),
                ..fault(Difference::Wrong, place, &written[index])
            });
        }
    }
    for written in missing.into_iter().map(|index| &written[index]) {
        let is_told = faults.iter().any(|fault| fault.place.chain == chain && fault.kind == written.kind);
        if !is_told {
            let detail = match written.or {
                Some(_) => written.lost.to_owned(),
                None => format!("{}; the proxy writes `{}` there", written.lost, written.text),
            };
            let place = Place::within(super::TABLE, chain);
            new.push(Fault { detail, ..fault(Difference::Missing, place, written) });
        }
    }
    faults.extend(new);
}

fn fault(difference: Difference, place: Place, written: &Written) -> Fault {
    Fault {
        difference,
        kind: written.kind,
        object: written.object.clone(),
        place,
        endpoint: written.endpoint.map(|endpoint| endpoint.to_string()),
        detail: String::new(),
    }
}

/// A rule that reads otherwise than what is written in its place, or that nothing is written for.
fn otherwise(place: Place, rule: &Rule, instead: Option<&Written>) -> Fault {
    match instead {
        Some(written) => Fault {
            detail: format!(
                "it reads `{}`, and the proxy writes `{}` there; without it {}",
                rule.text, written.text, written.lost
            ),
            ..fault(Difference::Wrong, place, written)
        },
        None => Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: word(&rule.text).to_owned(),
            place,
            endpoint: None,
            detail: format!("a rule that no proxy writes there: `{}`", rule.text),
        },
    }
}

/// What it does: the last of its words that is a verdict or the like.
fn word(text: &str) -> &str {
    const WORDS: [&str; 11] =
        ["goto", "jump", "drop", "reject", "return", "accept", "dnat", "vmap", "masquerade", "set", "update"];
    text.split(' ').rev().find(|word| WORDS.contains(word)).unwrap_or("rule")
}

/// How many words two texts have in common, at their places from the end and from the start.
fn likeness(one: &str, other: &str) -> usize {
    let same = |(one, other): &(&str, &str)| one == other;
    let start = one.split(' ').zip(other.split(' ')).filter(same).count();
    start + one.split(' ').rev().zip(other.split(' ').rev()).filter(same).count()
}

/// Whether the order of two says nothing: ends of node ports and of addresses, and affinity's lookups of different
/// clients.
fn are_free(written: &Written, other: &Rule) -> bool {
    let is_end = |text: &str| text.starts_with("ct state new jump ") && text.ends_with("-endpoints-check");
    let is_known = |text: &str| text.contains(" saddr @affinity-");
    (is_end(&written.text) && is_end(&other.text)) || (is_known(&written.text) && is_known(&other.text))
}
