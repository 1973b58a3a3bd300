//! A node, as the cluster says it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{CardSpec, ResourceList, Taint};

/// A node. Its cards stand here as far as the node object tells; a
/// [`DeviceReport`](crate::model::DeviceReport) outranks them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Node {
    /// Name: the node's identity.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// `status.allocatable`; `pods` is the largest number of pods.
    pub allocatable: ResourceList,
    /// `status.images`: each name of an image that is there, with its size in bytes.
    pub images: Vec<(String, i64)>,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<String>,
    /// The cards.
    pub cards: Vec<CardSpec>,
}
