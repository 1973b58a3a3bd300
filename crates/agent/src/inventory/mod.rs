//! What a node has: its cards and their MIG devices, as plain values.
//!
//! Whoever talks to NVML makes them; everybody else reads them and needs no driver to be tested.

mod card;
mod ids;
mod seen;

pub use card::{Card, ComputeCapability, Link, LinkPeer, Mig, MigDevice, MigProfile, Placement};
pub use ids::{CardIndex, DeviceUuid, GpuUuid, MigUuid, Minor, PciBusId};
pub use seen::{DeviceHealth, Seen};

/// What a node has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The driver's version, such as `570.86.15`.
    pub driver_version: String,
    /// The newest CUDA that the driver supports: major, minor.
    pub cuda_version: Option<(u32, u32)>,
    /// The cards, in NVML's order.
    pub cards: Vec<Card>,
}

impl Inventory {
    /// The card of this UUID.
    pub fn card(&self, uuid: &GpuUuid) -> Option<&Card> {
        self.cards.iter().find(|card| card.uuid == *uuid)
    }

    /// The MIG device of this UUID, and its card.
    pub fn mig_device(&self, uuid: &MigUuid) -> Option<(&Card, &MigDevice)> {
        self.cards.iter().find_map(|card| Some((card, card.mig.devices().iter().find(|device| device.uuid == *uuid)?)))
    }
}
