//! `meta/v1`: what every object has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields that are not in the struct, as written.
pub type Unknown = BTreeMap<String, Value>;

/// `ObjectMeta`, as far as netlab reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// `name`.
    pub name: Option<String>,
    /// `generateName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// `namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `labels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// `ownerReferences`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_references: Option<Vec<OwnerReference>>,
    /// `uid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `resourceVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Everything else (annotations, managedFields, …): never meaningful here.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `OwnerReference`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// `controller`.
    pub controller: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// `matchLabels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// `matchExpressions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    /// `key`.
    pub key: String,
    /// `operator`: In, NotIn, Exists, DoesNotExist.
    pub operator: String,
    /// `values`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Fields that are not in the API.
    #[serde(flatten)]
    pub unknown: Unknown,
}
