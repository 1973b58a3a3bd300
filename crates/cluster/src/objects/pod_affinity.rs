//! What a pod wants of other pods: `podAffinity`, `podAntiAffinity`, `topologySpreadConstraints`.

use serde::Deserialize;

use super::lenient::{list, nullable};
use super::selector::LabelSelector;

/// `podAffinity` or `podAntiAffinity`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinity {
    /// What must hold.
    #[serde(deserialize_with = "list")]
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    /// What had better hold.
    #[serde(deserialize_with = "list")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodAffinityTerm>,
}

/// A term.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Which pods.
    pub label_selector: Option<LabelSelector>,
    /// In these namespaces.
    #[serde(deserialize_with = "list")]
    pub namespaces: Vec<String>,
    /// In namespaces with such labels.
    pub namespace_selector: Option<LabelSelector>,
    /// The label whose values are the domains.
    #[serde(deserialize_with = "nullable")]
    pub topology_key: String,
}

/// A term with a weight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm {
    /// Weight, 1 to 100.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    /// The term.
    #[serde(deserialize_with = "nullable")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// A spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// How far domains may differ.
    #[serde(deserialize_with = "nullable")]
    pub max_skew: i32,
    /// The label whose values are the domains.
    #[serde(deserialize_with = "nullable")]
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`, as text.
    #[serde(deserialize_with = "nullable")]
    pub when_unsatisfiable: String,
    /// Which pods.
    pub label_selector: Option<LabelSelector>,
    /// How many domains there should be.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`, as text.
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`, as text.
    pub node_taints_policy: Option<String>,
    /// Labels whose values the counted pods share with the pod.
    #[serde(deserialize_with = "list")]
    pub match_label_keys: Vec<String>,
}
