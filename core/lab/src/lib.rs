//! A cluster as network namespaces: nodes, pods, the fabric between them, and traffic among them.
//!
//! A [`Plan`] is worked out from a cluster without touching anything; [`Lab::build`] makes it, [`mod@print`] writes
//! it down as the commands a person would type. [`traffic`] sends one packet and says what became of it.
//! [`proxy`] gives its nodes the rules by which Services are reached. [`named`] keeps a lab alive after its maker has gone.
//!
//! Invariant: a lab is held by file descriptors alone. It has no names in `/run/netns`, no mounts, no links
//! outside its own namespaces, so it vanishes with the process that holds it, whatever way that process ends.
//! Knows nothing of policies or BPF.
#![expect(
    clippy::missing_errors_doc,
    reason = "every error names its own cause; a section per function would repeat the type"
)]

pub mod dns;
pub mod error;
pub mod fault;
pub mod named;
pub mod paths;
pub mod place;
pub mod plan;
pub mod print;
pub mod proxy;
pub mod topology;
pub mod traffic;

pub use error::LabError;
pub use netlab_node::userns::enter as enter_user_namespace;
pub use place::Place;
pub use plan::{Plan, PlanError, Selection};
pub use topology::{HostInterface, Lab};
