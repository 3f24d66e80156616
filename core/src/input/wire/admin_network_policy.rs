//! `policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy`, and the rules that it shares with its baseline.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Unknown};
use super::tier_policy::{Peer, Subject};

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdminNetworkPolicy {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<AdminNetworkPolicySpec>,
    /// `apiVersion`, `kind`, `status`, and fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdminNetworkPolicySpec {
    /// `priority`: 0 to 1000, the lower the earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// `subject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// `ingress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Vec<IngressRule>>,
    /// `egress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<EgressRule>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec.ingress[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressRule {
    /// `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `action`: Allow, Deny or Pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Peer>>,
    /// `ports`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<Port>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec.egress[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressRule {
    /// `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `action`: Allow, Deny or Pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Peer>>,
    /// `ports`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<Port>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An element of `ports`: exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// `portNumber`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_number: Option<PortNumber>,
    /// `portRange`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range: Option<PortRange>,
    /// `namedPort`: a container port's name, of any protocol. Experimental channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_port: Option<String>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `portNumber`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortNumber {
    /// `protocol`: TCP when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `portRange`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortRange {
    /// `protocol`: TCP when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// `start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// `end`, included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}
