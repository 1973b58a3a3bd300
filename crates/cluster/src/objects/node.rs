//! `v1` Node.

use serde::Deserialize;

use super::lenient::{Quantities, list, nullable};
use super::meta::ObjectMeta;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Taints.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
}

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// Effect, as text: one that is not known must not cost the node.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

/// `status` of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// All that the machine has.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Quantities,
    /// What pods may have.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: Quantities,
    /// Images that are there.
    #[serde(deserialize_with = "list")]
    pub images: Vec<ContainerImage>,
    /// Features that kubelet declares.
    #[serde(deserialize_with = "list")]
    pub declared_features: Vec<String>,
}

/// An image on a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerImage {
    /// Its names.
    #[serde(deserialize_with = "list")]
    pub names: Vec<String>,
    /// Its size.
    #[serde(deserialize_with = "nullable")]
    pub size_bytes: i64,
}
