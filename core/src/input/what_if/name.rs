//! Names of objects as they are typed: `NetworkPolicy/shop/db`, `netpol/shop/db`, `AdminNetworkPolicy/guard`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The namespace of objects that do not say.
const DEFAULT_NAMESPACE: &str = "default";

/// `KIND/NAMESPACE/NAME`, or `KIND/NAME` of what has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    kind: &'static str,
    namespace: Option<String>,
    name: String,
}

/// A text that names no object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// Too few or too many parts.
    #[error("`{text}` names no object: write KIND/NAMESPACE/NAME, or KIND/NAME of what has no namespace")]
    Parts {
        /// As written.
        text: String,
    },
    /// The kind is not one of those that are read.
    #[error("netlab reads no kind `{kind}`: use NetworkPolicy, AdminNetworkPolicy, Pod, Deployment, …")]
    Kind {
        /// As written.
        kind: String,
    },
    /// A namespace where there is none.
    #[error("a {kind} has no namespace: write {kind}/{name}")]
    Namespace {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

/// The kinds: their name, the short one, and whether they are in a namespace.
const KINDS: [(&str, &str, bool); 17] = [
    ("NetworkPolicy", "netpol", true),
    ("AdminNetworkPolicy", "anp", false),
    ("BaselineAdminNetworkPolicy", "banp", false),
    ("ClusterNetworkPolicy", "cnp", false),
    ("Pod", "po", true),
    ("Namespace", "ns", false),
    ("Node", "no", false),
    ("Service", "svc", true),
    ("EndpointSlice", "eps", true),
    ("Endpoints", "ep", true),
    ("Deployment", "deploy", true),
    ("ReplicaSet", "rs", true),
    ("StatefulSet", "sts", true),
    ("DaemonSet", "ds", true),
    ("ReplicationController", "rc", true),
    ("Job", "job", true),
    ("CronJob", "cj", true),
];

impl FromStr for ObjectName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (word, namespace, name) = match parts.as_slice() {
            [kind, name] => (*kind, None, *name),
            [kind, namespace, name] => (*kind, Some(*namespace), *name),
            _ => return Err(NameError::Parts { text: text.to_owned() }),
        };
        if parts.iter().any(|part| part.trim().is_empty()) {
            return Err(NameError::Parts { text: text.to_owned() });
        }
        let lower = word.to_lowercase();
        let is_it = |kind: &str, short: &str| {
            let kind = kind.to_lowercase();
            let plural =
                kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
            [kind.as_str(), plural.as_str(), short].contains(&lower.as_str())
        };
        let Some((kind, _, namespaced)) = KINDS.iter().find(|(kind, short, _)| is_it(kind, short)) else {
            return Err(NameError::Kind { kind: word.to_owned() });
        };
        match namespace {
            Some(_) if !namespaced => Err(NameError::Namespace { kind, name: name.to_owned() }),
            _ => Ok(Self { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() }),
        }
    }
}

/// Kind, namespace (of kinds that are in one) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: &'static str,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Key {
    /// With the namespace that the kind asks for.
    pub(super) fn new(kind: &'static str, namespace: Option<&str>, name: &str) -> Self {
        let written = namespace.filter(|namespace| !namespace.is_empty());
        let in_one = KINDS.iter().any(|(known, _, namespaced)| *known == kind && *namespaced);
        let namespace = in_one.then(|| written.unwrap_or(DEFAULT_NAMESPACE).to_owned());
        Self { kind, namespace, name: name.to_owned() }
    }
}

/// As it is typed.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// A kind that is read, by its own name.
pub(super) fn known(kind: &str) -> Option<&'static str> {
    KINDS.iter().map(|(known, ..)| *known).find(|known| *known == kind)
}

impl ObjectName {
    /// What is meant, where names without a namespace mean this one.
    pub(super) fn key(&self, default_namespace: Option<&str>) -> Key {
        Key::new(self.kind, self.namespace.as_deref().or(default_namespace), &self.name)
    }
}
