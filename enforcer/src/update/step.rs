//! The steps of a change, for whoever wants to follow them.
//!
//! Invariant: a step is told when it is done and before the next one begins, so whoever ends the process there leaves
//! exactly what was done. Following changes nothing.

use std::fmt;
use std::sync::Arc;

/// What was just done. A change passes through them in this order; some of them many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// The change is recorded on disk.
    Recorded,
    /// New rows are in `POLICY`.
    Rows,
    /// New port tables and rulesets are in their arrays.
    Ports,
    /// An address or a prefix has the label that it has while the pods are switched.
    Refined,
    /// Services have their next endpoints beside those of before.
    Served,
    /// Packets that read anything before that are gone.
    Waited,
    /// A new pod has its record.
    Described,
    /// A new pod has a program on one of its hooks.
    Attached,
    /// A pod is switched.
    Switched,
    /// A pod that is no longer wanted is let go.
    LetGo,
    /// Packets of before the switch are gone.
    WaitedAgain,
    /// Services have their next endpoints alone.
    Settled,
    /// An address or a prefix has its last label.
    Coarsened,
    /// A prefix is gone.
    Unlabelled,
    /// An old row is gone.
    Removed,
    /// Old port tables and rulesets are blank.
    Blanked,
    /// The change is recorded as in force.
    Finished,
}

/// Who follows the steps; nobody, by default.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<dyn Fn(Step) + Send + Sync>>);

impl Steps {
    /// Calls `follow` after each step.
    pub fn followed(follow: impl Fn(Step) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(follow)))
    }

    pub(crate) fn done(&self, step: Step) {
        if let Some(follow) = &self.0 {
            follow(step);
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Steps").field(&self.0.is_some()).finish()
    }
}
