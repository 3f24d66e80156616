//! A place in a lab: a pod, a node, or the fabric.
//!
//! Invariant: the text form (`pod/NS/NAME`, `node/NAME`, `fabric`) is the command line's own and reads back to
//! the same place.

use netlab_core::model::cluster::ObjectKey;
use serde::{Deserialize, Serialize};

/// Where packets start or end. A hostNetwork pod is at its node's place, but may be named as a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// The world between and beyond the nodes; it bears the external addresses.
    Fabric,
    /// A node.
    Node(String),
    /// A pod.
    Pod(ObjectKey),
}

impl Place {
    /// A pod's place.
    pub fn pod(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Pod(ObjectKey::new(namespace, name))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fabric => f.write_str("fabric"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Pod(key) => write!(f, "pod/{key}"),
        }
    }
}

/// A text that names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no place in a lab; write pod/NAMESPACE/NAME, node/NAME or fabric")]
pub struct PlaceError {
    /// The text.
    pub text: String,
}

impl std::str::FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let parts: Vec<&str> = text.split('/').collect();
        match *parts.as_slice() {
            ["fabric"] => Ok(Self::Fabric),
            ["node", name] if !name.is_empty() => Ok(Self::Node(name.to_owned())),
            ["pod", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self::pod(namespace, name))
            }
            _ => Err(PlaceError { text: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = PlaceError;

    fn try_from(text: String) -> Result<Self, PlaceError> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}
