//! What a pod wants of the pods around it: affinity to some, anti-affinity to others, an even spread.

use serde::{Deserialize, Serialize};

use crate::model::LabelSelector;

/// A term of pod affinity or anti-affinity. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into
/// the selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PodAffinityTerm {
    /// Which pods; `None` is none.
    pub selector: Option<LabelSelector>,
    /// In these namespaces …
    pub namespaces: Vec<String>,
    /// … and in those with such labels. Neither means the pod's own.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose value says what "together" means.
    pub topology_key: String,
}

/// A preferred term with its weight, 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct WeightedPodAffinityTerm {
    /// Weight.
    pub weight: i32,
    /// The term.
    pub term: PodAffinityTerm,
}

/// `podAffinity` or `podAntiAffinity`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PodAffinity {
    /// What must hold.
    pub required: Vec<PodAffinityTerm>,
    /// What had better hold.
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// `whenUnsatisfiable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    /// The constraint must hold.
    #[default]
    DoNotSchedule,
    /// It had better hold.
    ScheduleAnyway,
}

/// Whether a node that the pod could not go to anyway takes part in a spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeInclusionPolicy {
    /// It does not.
    Honor,
    /// It does.
    Ignore,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopologySpreadConstraint {
    /// How far domains may differ.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Whether it must hold.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Which pods are counted; `None` is none.
    pub selector: Option<LabelSelector>,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: i32,
    /// Whether `nodeSelector` and node affinity leave nodes out.
    pub node_affinity_policy: NodeInclusionPolicy,
    /// Whether untolerated taints leave nodes out.
    pub node_taints_policy: NodeInclusionPolicy,
    /// Labels whose values the counted pods share with this one.
    pub match_label_keys: Vec<String>,
}

impl Default for TopologySpreadConstraint {
    /// As the API server fills in what is left out, with a skew of 1.
    fn default() -> Self {
        Self {
            max_skew: 1,
            topology_key: String::new(),
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: None,
            min_domains: 1,
            node_affinity_policy: NodeInclusionPolicy::Honor,
            node_taints_policy: NodeInclusionPolicy::Ignore,
            match_label_keys: Vec::new(),
        }
    }
}
