//! What was seen of a node at one look: its devices and how they are.

use std::collections::BTreeMap;

use super::{DeviceUuid, Inventory};

/// What is there, and how it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The cards and their MIG devices.
    pub inventory: Inventory,
    /// How they are; a device that is not in here is healthy.
    pub health: BTreeMap<DeviceUuid, DeviceHealth>,
}

/// How a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceHealth {
    /// It works.
    Healthy,
    /// It takes nothing new.
    Unhealthy {
        /// Why.
        reason: String,
    },
}
