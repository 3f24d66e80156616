//! What the kinds of `policy.networking.k8s.io` have in common: subjects and peers.
//!
//! Both versions of the API spell these alike. Ingress peers have fewer fields than egress peers; there is one
//! struct for the two, so that a field in the wrong place can be told from one that nobody knows.

use serde::{Deserialize, Serialize};

use super::meta::{LabelSelector, Unknown};

/// `spec.subject`: exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subject {
    /// `namespaces`: every pod of the namespaces that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// `pods`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `NamespacedPod`: pods by their namespace's labels AND their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespacedPod {
    /// `namespaceSelector`: absent and empty both mean every namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// `podSelector`: required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An element of `from` (the first two fields) or `to` (all of them): exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// `namespaces`: every pod of the namespaces that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// `pods`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
    /// `networks`: CIDRs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    /// `nodes`: addresses of the nodes that match. Experimental channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<LabelSelector>,
    /// `domainNames`. Experimental channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_names: Option<Vec<String>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}
