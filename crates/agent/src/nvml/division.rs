//! How a card is cut, and how it could be: plain values.

use serde::{Deserialize, Serialize};

use crate::inventory::{MigProfile, Placement};

/// The id of a profile of GPU instances: what its instances are made by. The number that a profile is asked about is
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProfileId(pub u32);

/// MIG's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigMode {
    /// Whether the card is in it.
    pub current: bool,
    /// Whether it will be after the next reset.
    pub pending: bool,
}

/// One way to cut a GPU instance out of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceProfile {
    /// What instances are made by.
    pub id: ProfileId,
    /// Its name: `3g.20gb`.
    pub name: MigProfile,
    /// Its compute slices.
    pub slices: u32,
    /// Where its instances may lie on the empty card.
    pub placements: Vec<Placement>,
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInstance {
    /// Its number on the card.
    pub id: u32,
    /// What it was made by.
    pub profile: ProfileId,
    /// Where it lies on the card.
    pub placement: Placement,
    /// What it is cut into, by id.
    pub compute: Vec<ComputeInstance>,
}

/// A compute instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputeInstance {
    /// Its number in the GPU instance.
    pub id: u32,
    /// Its compute slices.
    pub slices: u32,
    /// Where it lies on the slices of the GPU instance.
    pub placement: Placement,
}

/// How a card is cut, and how it could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// The mode.
    pub mode: MigMode,
    /// All that the card can be cut into. Empty where the driver does not tell while the mode is off.
    pub profiles: Vec<InstanceProfile>,
    /// The GPU instances, by start.
    pub instances: Vec<GpuInstance>,
}
