//! What runs on a card, and what goes wrong on it.

use serde::{Deserialize, Serialize};

use super::{Megabytes, Utilization, is_default};

/// A process that has the card open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Process {
    /// Its number, as the host sees it.
    pub pid: u32,
    /// What it is called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// The card's memory that it holds, in MiB.
    #[serde(default, rename = "memory", skip_serializing_if = "is_default")]
    pub used: Megabytes,
    /// How it uses the card.
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: ProcessKind,
    /// The GPU instance that it runs on, by id.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_instance: Option<u32>,
    /// The compute instance in it, by id. 0 is the only one of most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute_instance: Option<u32>,
    /// How busy it keeps the card.
    #[serde(default, skip_serializing_if = "is_default")]
    pub utilization: Utilization,
    /// Its control group, for the [tree of procfs](crate::roots): a path such as `/kubepods.slice/…`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cgroup: Option<String>,
}

impl Process {
    /// A process that computes and holds so much memory.
    pub fn computing(pid: u32, used: Megabytes) -> Self {
        Self {
            pid,
            name: None,
            used,
            kind: ProcessKind::Compute,
            gpu_instance: None,
            compute_instance: None,
            utilization: Utilization::default(),
            cgroup: None,
        }
    }
}

/// How a process uses the card, and so which of NVML's three lists it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// By CUDA.
    #[default]
    Compute,
    /// It draws.
    Graphics,
    /// By CUDA, as a client of the Multi-Process Service.
    Mps,
}

/// A critical error that the driver reports. The list of a card only grows: whoever had asked for events when one appears is
/// told of it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Xid {
    /// Tells the entries of one card apart.
    pub id: u64,
    /// NVIDIA's number of the error.
    pub xid: u64,
    /// The GPU instance that it happened on, by id.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu_instance: Option<u32>,
    /// The compute instance in it, by id.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute_instance: Option<u32>,
}
