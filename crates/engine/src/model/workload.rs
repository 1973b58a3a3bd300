//! Objects that say which pods belong together: services and controllers, disruption budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::LabelSelector;

/// What kind of object selects pods that had better be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WorkloadKind {
    /// `v1` Service: all pods that it selects.
    Service,
    /// `v1` ReplicationController: pods that it owns.
    ReplicationController,
    /// `apps/v1` ReplicaSet: pods that it owns.
    ReplicaSet,
    /// `apps/v1` StatefulSet: pods that it owns.
    StatefulSet,
}

impl WorkloadKind {
    /// The kind of a controller, by the name that an owner reference has for it.
    pub fn of_controller(kind: &str) -> Option<Self> {
        match kind {
            "ReplicationController" => Some(Self::ReplicationController),
            "ReplicaSet" => Some(Self::ReplicaSet),
            "StatefulSet" => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// The identity of such an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkloadName {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A service or controller with its selector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Which.
    pub name: WorkloadName,
    /// Its selector; `None` where it has none, which selects nothing.
    pub selector: Option<LabelSelector>,
}

/// A `policy/v1` PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Which pods; without any requirement, none.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// `status.disruptedPods`: names of pods whose eviction is counted already.
    pub disrupted: BTreeSet<String>,
}

impl DisruptionBudget {
    /// Whether it protects a pod with these labels in its namespace. A pod without labels is not protected, and an
    /// empty selector protects nobody, as kube-scheduler has it.
    pub fn covers(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let matches = |s: &LabelSelector| !s.requirements.is_empty() && s.matches(labels);
        *self.namespace == *namespace && !labels.is_empty() && self.selector.as_ref().is_some_and(matches)
    }
}
