//! Label selectors: the four operators.
//!
//! Invariant: a selector is the AND of its requirements and an empty one selects everything
//! (`meta/v1 LabelSelector`). `NotIn` also matches an object without the key.

use std::collections::BTreeSet;

use super::cluster::Labels;

/// A label selector, canonical: requirements sorted and without repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must hold for its value.
    pub operator: Operator,
}

/// `LabelSelectorRequirement.operator` with its values; `matchLabels` is `In` of one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The key is present with one of the values.
    In(BTreeSet<String>),
    /// The key is absent, or has none of the values.
    NotIn(BTreeSet<String>),
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
}

impl Selector {
    /// The selector with these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort();
        requirements.dedup();
        Self { requirements }
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// True when it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True when every requirement holds.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The first requirement that does not hold.
    pub fn first_failing(&self, labels: &Labels) -> Option<&Requirement> {
        self.requirements.iter().find(|requirement| !requirement.matches(labels))
    }
}

impl Requirement {
    /// True when the labels satisfy it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{}={}", self.key, list(values)),
            Operator::In(values) => write!(f, "{} in ({})", self.key, list(values)),
            Operator::NotIn(values) if values.len() == 1 => write!(f, "{}!={}", self.key, list(values)),
            Operator::NotIn(values) => write!(f, "{} notin ({})", self.key, list(values)),
            Operator::Exists => write!(f, "{} exists", self.key),
            Operator::DoesNotExist => write!(f, "no {}", self.key),
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("everything");
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}
