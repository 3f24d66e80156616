//! How much of a cluster a compilation is about.
//!
//! Invariant: the scope chooses subjects only. Peers are always everybody, but they are cut into classes no
//! finer than the policies of the chosen subjects need: a node's tables do not grow with other nodes' policies.

use std::collections::BTreeSet;

use crate::model::cluster::{ObjectKey, Pod};

/// Whose rulesets are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every pod's: for analysis.
    Cluster,
    /// The pods of one node: for its maps.
    Node(String),
    /// These pods': for a single question.
    Pods(BTreeSet<ObjectKey>),
}

impl Scope {
    /// True when the pod's ruleset is wanted.
    pub fn contains(&self, key: &ObjectKey, pod: &Pod) -> bool {
        match self {
            Self::Cluster => true,
            Self::Node(name) => pod.node.as_ref() == Some(name),
            Self::Pods(keys) => keys.contains(key),
        }
    }
}
