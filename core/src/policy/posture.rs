//! How policies stand to a pod in one direction, in one word.
//!
//! Invariant: `isolated` is said only where a `NetworkPolicy` isolates, since only then what no rule matches is denied;
//! policies of the Admin and Baseline tiers decide what their rules match, and leave the rest open.

use netlab_ebpf::abi::Direction;
use serde::{Deserialize, Serialize};

use super::ruleset::Rulesets;
use crate::model::cluster::ObjectKey;

/// What becomes of a packet that no rule matches, and whether there are rules at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Posture {
    /// No policy acts: everything passes.
    #[default]
    Open,
    /// Only policies of the Admin and Baseline tiers act: what none of their rules decides passes.
    Tiers,
    /// A `NetworkPolicy` isolates: what no rule admits is denied.
    Isolated,
}

impl std::fmt::Display for Posture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Open => "open",
            Self::Tiers => "tiers",
            Self::Isolated => "isolated",
        })
    }
}

impl Rulesets {
    /// How policies stand to the pods of a ruleset, by its number; `None` for a number that is not of this compilation.
    pub fn posture(&self, ruleset: u32, direction: Direction) -> Option<Posture> {
        let ruleset = self.list.iter().find(|known| known.id == ruleset)?;
        Some(match ruleset.table(direction) {
            None => Posture::Open,
            Some(table) if table.isolated_by.is_empty() => Posture::Tiers,
            Some(_) => Posture::Isolated,
        })
    }

    /// The same for a pod; `None` when it is not in scope.
    pub fn posture_of(&self, pod: &ObjectKey, direction: Direction) -> Option<Posture> {
        self.posture(self.ruleset_of(pod)?.id, direction)
    }
}
