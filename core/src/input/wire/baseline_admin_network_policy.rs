//! `policy.networking.k8s.io/v1alpha1 BaselineAdminNetworkPolicy`.

use serde::{Deserialize, Serialize};

use super::admin_network_policy::{EgressRule, IngressRule};
use super::meta::{ObjectMeta, Unknown};
use super::tier_policy::Subject;

/// The object: there is one, called `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BaselineAdminNetworkPolicy {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<BaselineAdminNetworkPolicySpec>,
    /// `apiVersion`, `kind`, `status`, and fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec`: as that of an `AdminNetworkPolicy`, but no priority, no `Pass` and no `domainNames`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BaselineAdminNetworkPolicySpec {
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
