//! Objects that say which pods belong together, and the namespaces they live in.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient::{nullable, texts};
use super::meta::ObjectMeta;
use super::selector::LabelSelector;

/// `v1` Namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}

/// A selector that only names labels with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelsSpec {
    /// The labels.
    #[serde(deserialize_with = "texts")]
    pub selector: BTreeMap<String, String>,
}

/// `v1` Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: LabelsSpec,
}

/// `v1` ReplicationController.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationController {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: LabelsSpec,
}

/// A full selector.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectorSpec {
    /// The selector.
    pub selector: Option<LabelSelector>,
}

/// `apps/v1` ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSet {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: SelectorSpec,
}

/// `apps/v1` StatefulSet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSet {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: SelectorSpec,
}

/// `policy/v1` PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: SelectorSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: PodDisruptionBudgetStatus,
}

/// `status` of a budget.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetStatus {
    /// How many pods may go.
    #[serde(deserialize_with = "nullable")]
    pub disruptions_allowed: i32,
    /// Pods whose eviction is under way, by name; the times are not read.
    #[serde(deserialize_with = "nullable")]
    pub disrupted_pods: BTreeMap<String, serde::de::IgnoredAny>,
}
