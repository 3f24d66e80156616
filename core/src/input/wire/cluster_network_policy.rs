//! `policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy`, with the fields of both channels.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Unknown};
use super::tier_policy::{Peer, Subject};

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetworkPolicy {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<ClusterNetworkPolicySpec>,
    /// `apiVersion`, `kind`, `status`, and fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetworkPolicySpec {
    /// `tier`: Admin or Baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// `priority`: 0 to 1000, the lower the earlier within the tier.
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
    /// `action`: Accept, Deny or Pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Peer>>,
    /// `protocols`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<Protocol>>,
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
    /// `action`: Accept, Deny or Pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Peer>>,
    /// `protocols`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<Protocol>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An element of `protocols`: exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Protocol {
    /// `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Transport>,
    /// `udp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<Transport>,
    /// `sctp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sctp: Option<Transport>,
    /// `destinationNamedPort`: a container port's name, of any protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_named_port: Option<String>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `tcp`, `udp` or `sctp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Transport {
    /// `destinationPort`: absent means every port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<DestinationPort>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `destinationPort`: exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DestinationPort {
    /// `number`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// `range`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<DestinationRange>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `range`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DestinationRange {
    /// `start`: less than `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// `end`, included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}
