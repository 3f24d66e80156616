//! Why the tc backend could not do what it was asked, and whose fault that is.
//!
//! Invariant: every cause keeps its own words; what is added here is the pod or map that it is about, and what to do.

use std::io;

use netlab_core::policy::image::ImageError;
use netlab_node::NodeError;
use netlab_plugin::contract::{BackendError, Blame};

use crate::attach::AttachError;
use crate::instance::LoadError;
use crate::maps::MapError;
use crate::pins::PinError;

/// What can go wrong between a change and the kernel's maps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnforceError {
    /// The object could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A map could not be read or written.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The change has no image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The node could not be asked or entered.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A pod's interface could not be claimed.
    #[error("pod {pod}: {source}")]
    Claim {
        /// namespace/name.
        pod: String,
        /// Why.
        source: AttachError,
    },
    /// A device by which packets leave the node could not be claimed.
    #[error("device by which packets leave the node: {source}")]
    Wire {
        /// Why.
        source: AttachError,
    },
    /// A pod's interface is not there.
    #[error("pod {pod}: there is no interface {interface} in this network namespace")]
    NoInterface {
        /// namespace/name.
        pod: String,
        /// Its name.
        interface: String,
    },
    /// A map is too small for what has to be in it while both policies are in force.
    #[error("map {map} has room for {room} elements, but this change needs {needed} while it is being made")]
    Room {
        /// The map.
        map: &'static str,
        /// How many are needed.
        needed: u64,
        /// How many fit.
        room: u64,
    },
    /// A number is beyond an array's end.
    #[error("{what} {number} is beyond map {map}, which ends at {limit}")]
    Number {
        /// `ruleset`, `entry`.
        what: &'static str,
        /// The number.
        number: u32,
        /// The map.
        map: &'static str,
        /// Its size.
        limit: u32,
    },
    /// A row has to change under a number that packets use.
    #[error("map {map} holds another value under a key that is in use: {key}")]
    Conflict {
        /// The map.
        map: &'static str,
        /// The key.
        key: String,
    },
    /// The pins cannot be used.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The kernel does not wait for its readers.
    #[error("the kernel's membarrier does not work here: {0}")]
    Grace(io::Error),
}

impl EnforceError {
    const fn blame(&self) -> Blame {
        match self {
            Self::Image(_)
            | Self::NoInterface { .. }
            | Self::Pins(PinError::NotBpffs { .. } | PinError::OtherNode { .. }) => Blame::Input,
            Self::Conflict { .. } => Blame::Bug,
            _ => Blame::Kernel,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Load(LoadError::NotAllowed) => {
                "run as root or with CAP_BPF and CAP_NET_ADMIN; without, the nft backend works in a user namespace"
            }
            Self::NoInterface { .. } => {
                "the pod may be starting or gone: apply again with its present interface"
            }
            Self::Claim { .. } | Self::Wire { .. } => {
                "`netlab check` tells whether this kernel has tcx (Linux 6.6)"
            }
            Self::Room { .. } | Self::Number { .. } | Self::Map(MapError::Full { .. }) => {
                "load anew with larger maps (in a lab: detach, then attach sizes them for the set), or with fewer \
                 policies"
            }
            Self::Grace(_) => "kernels with nohz_full CPUs refuse MEMBARRIER_CMD_GLOBAL",
            Self::Node(error) if error.is_permission() => "entering a network namespace needs CAP_SYS_ADMIN",
            _ => return None,
        })
    }

    const fn retry(&self) -> bool {
        matches!(
            self,
            Self::NoInterface { .. }
                | Self::Claim { .. }
                | Self::Wire { .. }
                | Self::Pins(PinError::InUse { .. })
        )
    }
}

impl From<EnforceError> for BackendError {
    fn from(error: EnforceError) -> Self {
        let hint = error.hint().map(str::to_owned);
        let (blame, retry) = (error.blame(), error.retry());
        Self { message: error.to_string(), hint, blame, retry }
    }
}
