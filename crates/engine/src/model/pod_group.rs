//! Pods that belong together (`scheduling.k8s.io` PodGroup, KEP-4671).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The identity of a pod group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodGroupName {
    /// Its namespace: that of its pods.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl std::fmt::Display for PodGroupName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroup {
    /// Which.
    pub name: PodGroupName,
    /// With the gang policy: so many of its pods start together, or none does.
    pub min_count: Option<u32>,
    /// Whether its pods go together when one has to make room (disruption mode `all`).
    pub disrupted_as_one: bool,
    /// Its priority.
    pub priority: i32,
}
