//! `scheduling.k8s.io/v1beta1` PodGroup.

use serde::Deserialize;

use super::lenient::nullable;
use super::meta::ObjectMeta;

/// A pod group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroup {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodGroupSpec,
}

/// `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// How its pods are scheduled.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_policy: SchedulingPolicy,
    /// How its pods go.
    #[serde(deserialize_with = "nullable")]
    pub disruption_mode: DisruptionMode,
    /// Priority, as admission resolved it.
    #[serde(deserialize_with = "nullable")]
    pub priority: i32,
}

/// How the pods of a group are scheduled: one by one, or as a gang.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// As a gang.
    pub gang: Option<GangPolicy>,
}

/// So many together, or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GangPolicy {
    /// How many.
    #[serde(deserialize_with = "nullable")]
    pub min_count: u32,
}

/// How the pods of a group go when they have to make room: one by one, or all together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DisruptionMode {
    /// All together.
    pub all: Option<serde_json::Map<String, serde_json::Value>>,
}
