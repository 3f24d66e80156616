//! `networking.k8s.io/v1 NetworkPolicy`.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::meta::{LabelSelector, ObjectMeta, Unknown};

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicy {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<NetworkPolicySpec>,
    /// Fields that are not in the API (`status` of old servers among them).
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// `podSelector`: absent and empty both mean every pod of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// `policyTypes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_types: Option<Vec<String>>,
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

/// `NetworkPolicyPeer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// `podSelector`: absent is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// `namespaceSelector`: absent is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// `ipBlock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `IPBlock`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpBlock {
    /// `cidr`.
    pub cidr: String,
    /// `except`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `NetworkPolicyPort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// `protocol`: TCP when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    /// `endPort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_port: Option<i64>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `IntOrString`: a quoted number is a string.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A name.
    String(String),
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = IntOrString;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or a name")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<IntOrString, E> {
                Ok(IntOrString::Int(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<IntOrString, E> {
                i64::try_from(value)
                    .map(IntOrString::Int)
                    .map_err(|_| E::invalid_type(Unexpected::Unsigned(value), &self))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::String(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
