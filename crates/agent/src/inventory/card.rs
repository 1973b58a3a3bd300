//! A card and its MIG devices: what does not change from one look to the next.

use gpu_scheduler_engine::model::Mib;
use serde::{Deserialize, Serialize};

use super::ids::{CardIndex, GpuUuid, MigUuid, Minor, PciBusId};

/// A card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Its place in NVML's enumeration.
    pub index: CardIndex,
    /// Its name for good.
    pub uuid: GpuUuid,
    /// NVML's name, as it is: `NVIDIA A100-SXM4-80GB`.
    pub name: String,
    /// `/dev/nvidia<minor>`.
    pub minor: Minor,
    /// Where it sits.
    pub pci: PciBusId,
    /// Its NUMA node, where the machine says.
    pub numa_node: Option<u32>,
    /// Its memory.
    pub memory: Mib,
    /// What generation of CUDA it computes.
    pub capability: ComputeCapability,
    /// Direct connections.
    pub links: Vec<Link>,
    /// Whether and how it is partitioned.
    pub mig: Mig,
}

impl Card {
    /// Whether it is in MIG mode, so that only its parts are handed out.
    pub fn is_partitioned(&self) -> bool {
        matches!(self.mig, Mig::Enabled(_))
    }
}

/// Compute capability, compared as versions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeCapability {
    /// Before the point.
    pub major: u32,
    /// Behind it.
    pub minor: u32,
}

/// NVLink lanes to one other device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What is at the other end.
    pub peer: LinkPeer,
    /// How many lanes go there.
    pub lanes: u32,
}

/// The other end of NVLink lanes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkPeer {
    /// A card of this node.
    Card(GpuUuid),
    /// An NVSwitch: through it every card that has one.
    Switch,
}

/// Whether and how a card is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mig {
    /// It cannot be.
    Incapable,
    /// It could be, and is not.
    Disabled,
    /// It is: these are its parts, none until some are made.
    Enabled(Vec<MigDevice>),
}

impl Mig {
    /// The parts there are.
    pub fn devices(&self) -> &[MigDevice] {
        match self {
            Self::Enabled(devices) => devices,
            Self::Incapable | Self::Disabled => &[],
        }
    }
}

/// A MIG device: a compute instance in a GPU instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigDevice {
    /// Its place among the card's MIG devices.
    pub index: u32,
    /// Its name for good.
    pub uuid: MigUuid,
    /// What it is.
    pub profile: MigProfile,
    /// The GPU instance's id.
    pub gpu_instance: u32,
    /// The compute instance's id.
    pub compute_instance: u32,
    /// Where the GPU instance lies on the card.
    pub placement: Placement,
    /// Its memory.
    pub memory: Mib,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Slices of the GPU instance and of the compute instance.
    pub slices: (u32, u32),
    /// Copy engines, decoders, encoders, JPEG and OFA engines.
    pub engines: [u32; 5],
}

impl MigDevice {
    /// Whether it is all of its GPU instance: a part of one is no resource.
    pub fn is_resource(&self) -> bool {
        self.slices.0 == self.slices.1
    }

    /// Whether two devices have the same attributes, wherever they lie.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |device: &Self| {
            (device.profile.clone(), device.memory, device.multiprocessors, device.slices, device.engines)
        };
        of(self) == of(other)
    }
}

/// A profile's name, as NVIDIA writes it: `1g.10gb`, `1g.10gb+me`, `1c.3g.20gb`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigProfile(pub Box<str>);

impl MigProfile {
    /// As resources and labels have it, where a plus sign is not allowed: `1g.10gb.me`.
    pub fn as_resource(&self) -> String {
        self.0.replace('+', ".")
    }
}

/// Units on a card's memory axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The first unit.
    pub start: u32,
    /// How many.
    pub size: u32,
}
