//! The allocation record: which container of a pod holds what. It is written onto the pod in the
//! transaction that binds it, and is all that a restart needs.

use serde::{Deserialize, Serialize};

use crate::model::{Mib, Percent};

/// What kind of thing a container was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GrantKind {
    /// A card to itself.
    Whole,
    /// Memory and compute of a card.
    Share,
    /// A MIG slice.
    Mig,
    /// A seat on a time-sliced card.
    Seat,
}

/// One device of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceGrant {
    /// The card's UUID.
    pub uuid: String,
    /// The card's index on its node.
    pub index: u32,
    /// Memory of it.
    pub memory: Mib,
    /// Compute of it.
    pub compute: Percent,
    /// UUID of the MIG slice.
    pub mig: Option<String>,
}

/// The devices of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContainerAllocation {
    /// The container's name; init containers are listed too.
    pub name: String,
    /// What kind of devices; `None` is inferred from the request.
    pub kind: Option<GrantKind>,
    /// The devices.
    pub devices: Vec<DeviceGrant>,
}

/// The whole record, empty for a pod without GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// By container, in the pod's order.
    pub containers: Vec<ContainerAllocation>,
}
