//! Which labels come nearest to what a selector wants.
//!
//! Invariant: the nearest fails the fewest requirements; among equals, the one whose labels differ by the fewest
//! characters; then the first by name. What it has in place of what was wanted is said in its own words.

use crate::model::cluster::Labels;
use crate::model::selector::{Operator, Requirement, Selector};
use crate::policy::near_miss::failing;

/// Further apart than this, two words have nothing to do with each other.
const MOST_EDITS: usize = 2;

/// What a label costs that is not there at all.
const ABSENT: usize = 32;

/// The nearest of some labelled things.
#[derive(Debug)]
pub(super) struct Near<T> {
    /// Which.
    pub(super) what: T,
    /// What it has: `app=webb`, `app.kubernetes.io/name=web`, `no tier`.
    pub(super) has: String,
    /// True when some requirement holds, or what fails is a slip of the pen.
    pub(super) close: bool,
}

/// Finds it; `None` when there is nothing to choose from.
pub(super) fn nearest<'l, T>(
    selector: &Selector,
    things: impl IntoIterator<Item = (T, &'l Labels)>,
) -> Option<Near<T>> {
    let measured = things.into_iter().map(|(what, labels)| {
        let failing = failing(selector, labels);
        let edits: usize = failing.iter().map(|requirement| distance(requirement, labels).0).sum();
        ((failing.len(), edits), what, labels)
    });
    let ((fails, edits), what, labels) = measured.min_by_key(|(measure, ..)| *measure)?;
    let has = failing(selector, labels).iter().map(|one| distance(one, labels).1).collect::<Vec<_>>();
    let close = fails < selector.requirements().len() || edits <= MOST_EDITS * fails;
    Some(Near { what, has: has.join(", "), close })
}

/// The word of some that is nearest to one, if it is near.
pub(super) fn nearest_word<'w>(wanted: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let measured = words.into_iter().map(|word| (strsim::damerau_levenshtein(wanted, word), word));
    let (edits, word) = measured.min()?;
    (edits <= MOST_EDITS && edits < wanted.len()).then_some(word)
}

/// True when two words differ so little for their length that one is the other, misspelt.
pub(super) fn is_slip(one: &str, other: &str) -> bool {
    strsim::damerau_levenshtein(one, other) * 4 <= one.len()
}

/// How far labels are from a requirement that they do not meet, and what they have instead.
fn distance(requirement: &Requirement, labels: &Labels) -> (usize, String) {
    let key = &requirement.key;
    let wanted: Vec<&String> = match &requirement.operator {
        Operator::In(values) => values.iter().collect(),
        Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => Vec::new(),
    };
    if let Some(value) = labels.get(key) {
        let edits = wanted.iter().map(|one| strsim::damerau_levenshtein(one, value)).min();
        return (edits.unwrap_or(ABSENT), format!("{key}={value}"));
    }
    // The same value under another key, `app.kubernetes.io/name` for `app`, is nearer than a key that looks alike.
    if let Some((other, value)) = labels.iter().find(|(_, value)| wanted.contains(value)) {
        return (1, format!("{other}={value}"));
    }
    let alike = labels.keys().map(|other| (strsim::damerau_levenshtein(key, other), other)).min();
    match alike {
        Some((edits, other)) if edits <= MOST_EDITS && edits < key.len() => {
            (edits, format!("{other}={}", labels[other]))
        }
        _ => (ABSENT, format!("no {key}")),
    }
}
