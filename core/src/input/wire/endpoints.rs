//! `v1 Endpoints` as it is written: what people write for a Service without a selector, and a controller mirrors.
//!
//! Invariant: as in the other wire structs, what is not known is kept.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Unknown};
use super::service::{EndpointPort, TargetRef};

/// `v1 Endpoints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoints {
    /// `metadata`: the name is the Service's.
    pub metadata: ObjectMeta,
    /// `subsets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsets: Option<Vec<EndpointSubset>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `EndpointSubset`: each of its addresses has each of its ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// `addresses`: those that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<EndpointAddress>>,
    /// `notReadyAddresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready_addresses: Option<Vec<EndpointAddress>>,
    /// `ports`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<EndpointPort>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `EndpointAddress`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// `ip`.
    pub ip: String,
    /// `hostname`: a name of its own below the Service's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// `targetRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}
