//! From text to the model: documents in, everything that could be understood and every reason why not out.

pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::model::cluster::Cluster;
use crate::model::policy::Policies;

/// A text with a name: a file, or standard input.
#[derive(Clone, Debug)]
pub struct Document {
    /// As it is to be shown, `examples/shop/policies/db.yaml`.
    pub name: Arc<str>,
    /// YAML (any number of documents) or JSON.
    pub text: Arc<str>,
}

/// The objects as written, pods that workloads stamp included: what the oracle reads.
#[derive(Clone, Debug, Default)]
pub struct WireObjects {
    /// Namespaces.
    pub namespaces: Vec<wire::core_v1::Namespace>,
    /// Pods.
    pub pods: Vec<wire::core_v1::Pod>,
    /// Nodes.
    pub nodes: Vec<wire::core_v1::Node>,
    /// Network policies that passed validation.
    pub network_policies: Vec<wire::network_policy::NetworkPolicy>,
}

/// What loading gives: it never fails, it tells.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The cluster.
    pub cluster: Cluster,
    /// The policies that were understood.
    pub policies: Policies,
    /// The same objects as written.
    pub wire: WireObjects,
    /// What was wrong, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts by name, to quote lines from.
    pub texts: BTreeMap<Arc<str>, Arc<str>>,
}
