//! What was handed out, so that it is known after the agent, kubelet or the node started anew.
//!
//! kubelet names no pod when it asks for devices. Whom they were for is known at that moment or worked out from what
//! kubelet lists later; here it is kept.

mod file;
mod reconcile;

pub use file::{Broken, Checkpoint, CheckpointError, KeptList, Loaded};
pub use reconcile::{Listed, Reconciled, reconcile};

use std::fmt;

use gpu_scheduler_engine::model::{Mib, PodUid, Timestamp};
use serde::{Deserialize, Serialize};

use crate::inventory::{DeviceUuid, GpuUuid};
use crate::resources::{DeviceId, Hold, ResourceName};

/// Devices of one resource that one container was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The resource.
    pub resource: ResourceName,
    /// What each of its ids takes.
    pub hold: Hold,
    /// The devices.
    pub devices: Vec<HeldDevice>,
    /// Who has them; `None` while nobody can tell.
    pub holder: Option<Holder>,
    /// When it was given.
    pub at: Timestamp,
}

impl Entry {
    /// Whether it is what this container of this pod was given.
    pub fn is_of(&self, pod: &PodUid, container: &str) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.uid.as_ref() == Some(pod) && holder.container == container)
    }

    /// Whether one of its ids is among `ids`.
    pub fn overlaps(&self, ids: &[DeviceId]) -> bool {
        self.devices.iter().any(|device| ids.contains(&device.id))
    }

    /// The devices behind the ids, in order, each once.
    pub fn uuids(&self) -> Vec<DeviceUuid> {
        let mut uuids: Vec<_> = self.devices.iter().map(|device| device.id.device.clone()).collect();
        uuids.sort();
        uuids.dedup();
        uuids
    }
}

/// A device that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDevice {
    /// What kubelet calls it.
    pub id: DeviceId,
    /// The card that it is (on).
    pub card: GpuUuid,
    /// Memory of it.
    pub memory: Mib,
}

/// A container that holds devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its pod's UID; `None` where kubelet named a pod that the API server has not shown.
    pub uid: Option<PodUid>,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Its name.
    pub container: String,
    /// Whether it runs to its end before the others begin, so that these may have its devices after it.
    pub init: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} of pod {}/{}", self.container, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests;
