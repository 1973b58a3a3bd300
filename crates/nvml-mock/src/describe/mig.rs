//! How a card is divided at boot.

use serde::{Deserialize, Serialize};

use super::{Gpm, Megabytes, is_default};

/// The mode of Multi-Instance GPU, and the instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Mig {
    /// Whether the card is in the mode.
    pub enabled: bool,
    /// Whether it will be after the next reset. By default the same.
    #[serde(skip_serializing_if = "is_default")]
    pub pending: Option<bool>,
    /// Its instances.
    #[serde(skip_serializing_if = "is_default")]
    pub instances: Vec<GpuInstance>,
}

/// A GPU instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GpuInstance {
    /// The name of its profile: `3g.20gb`.
    pub profile: String,
    /// Where it begins on the memory axis. By default where the driver would put it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Option<u32>,
    /// What it is cut into. By default one of all its slices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute_instances: Option<Vec<ComputeInstance>>,
    /// What is used of its memory, in MiB. By default the sum of its processes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub used: Option<Megabytes>,
    /// What the performance monitors say of it. By default what they say of the card.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpm: Option<Gpm>,
}

impl GpuInstance {
    /// One of that profile, where the driver would put it, in one piece.
    pub fn of(profile: &str) -> Self {
        Self { profile: profile.to_owned(), start: None, compute_instances: None, used: None, gpm: None }
    }
}

/// A compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ComputeInstance {
    /// Its number in the GPU instance. By default the lowest that is free.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id: Option<u32>,
    /// How many compute slices it has.
    pub slices: u32,
    /// Where it begins on the slices. By default the first place that will do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Option<u32>,
}
