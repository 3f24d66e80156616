//! `netlab dns …`: one file per verb.

pub(crate) mod checks;
pub(crate) mod diagnose;
pub(crate) mod lint;
mod live;
pub(crate) mod plan;
pub(crate) mod query;

use netlab_node::NodeError;

use crate::failure::Failure;

/// A namespace or a container that cannot be looked into, for the user.
fn not_entered(error: &NodeError) -> Failure {
    if error.is_permission() {
        return Failure::not_allowed("the place to ask from cannot be entered")
            .because(error)
            .hint("run it as root, on the pod's node");
    }
    Failure::unreadable("the place to ask from cannot be entered").because(error)
}
