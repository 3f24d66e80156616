//! Reading and touching a Linux node: network namespaces, rtnetlink, `/proc/sys/net`, what the machine can do.
//!
//! Invariant: nothing here changes the caller's own namespaces, except [`userns::enter`], whose name says so.
//! Whatever has to happen inside another namespace happens on a thread of its own, or through a socket that was
//! opened there. Knows nothing of policies, of DNS or of what a lab looks like.
#![expect(
    clippy::missing_errors_doc,
    reason = "every error names its own cause; a section per function would repeat the type"
)]

pub mod capability;
pub mod container;
pub mod dump;
pub mod error;
pub mod netlink;
pub mod netns;
pub mod proxy_rules;
pub mod sysctl;
pub mod userns;

pub use error::{Blame, NodeError};
pub use netlink::Netlink;
pub use netns::{Netns, NetnsIdentity};
