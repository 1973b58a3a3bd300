//! The pods of this node, as far as their GPUs go.

mod object;
mod watch;

pub use watch::watch;

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{Allocation, PodUid, Timestamp};

/// A pod that is bound to this node and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    /// Its UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Init containers first, each in the order of the spec: the order in which kubelet asks for devices.
    pub containers: Vec<PodContainer>,
    /// What the scheduler's record says; `None` where it left none, or none that can be read.
    pub record: Option<Allocation>,
    /// `status.startTime`: from then on kubelet has admitted it and asks for no more devices.
    pub started_at: Option<Timestamp>,
}

impl NodePod {
    /// Whether kubelet may still ask for its devices.
    pub fn in_flight(&self) -> bool {
        self.started_at.is_none()
    }
}

/// A container of such a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodContainer {
    /// Its name.
    pub name: String,
    /// Whether it runs to its end before the others begin (and is no sidecar).
    pub init: bool,
    /// Its limits on `nvidia.com/…`: how many of each.
    pub devices: BTreeMap<String, u32>,
    /// The runtime's id without its scheme, once it has one.
    pub id: Option<String>,
}
