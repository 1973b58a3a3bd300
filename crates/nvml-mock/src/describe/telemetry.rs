//! What a card measures.

use std::collections::BTreeMap;

use nvml_wrapper_sys::bindings as nvml;
use serde::{Deserialize, Serialize};

use super::is_default;

/// An amount of memory in MiB, the unit of `nvidia-smi`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Megabytes(pub u64);

impl Megabytes {
    /// The same in bytes, the unit of NVML.
    pub fn bytes(self) -> u64 {
        self.0 << 20
    }
}

impl std::iter::Sum for Megabytes {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.map(|amount| amount.0).sum())
    }
}

/// The card's memory, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Memory {
    /// All of it. By default the model's.
    #[serde(skip_serializing_if = "is_default")]
    pub total: Option<Megabytes>,
    /// What the driver keeps. By default the model's.
    #[serde(skip_serializing_if = "is_default")]
    pub reserved: Option<Megabytes>,
    /// What is used. By default the sum of the processes.
    #[serde(skip_serializing_if = "is_default")]
    pub used: Option<Megabytes>,
    /// What is used of the window over PCI.
    #[serde(skip_serializing_if = "is_default")]
    pub bar1_used: Megabytes,
}

/// How busy the engines are, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Utilization {
    /// The time in which a kernel ran.
    #[serde(skip_serializing_if = "is_default")]
    pub gpu: u32,
    /// The time in which memory was read or written.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: u32,
    /// The video encoders.
    #[serde(skip_serializing_if = "is_default")]
    pub enc: u32,
    /// The video decoders.
    #[serde(skip_serializing_if = "is_default")]
    pub dec: u32,
    /// The JPEG decoders.
    #[serde(skip_serializing_if = "is_default")]
    pub jpeg: u32,
    /// The optical flow accelerators.
    #[serde(skip_serializing_if = "is_default")]
    pub ofa: u32,
}

/// Power, in W; NVML counts in mW.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Power {
    /// What the card draws.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: f64,
    /// What it may draw. By default the model's.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: Option<f64>,
}

/// Clocks, in MHz. By default a third of the highest, as of an idle card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Clocks {
    /// Of the shaders.
    #[serde(skip_serializing_if = "is_default")]
    pub graphics: Option<u32>,
    /// Of the multiprocessors.
    #[serde(skip_serializing_if = "is_default")]
    pub sm: Option<u32>,
    /// Of the memory.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: Option<u32>,
    /// Of the video engines.
    #[serde(skip_serializing_if = "is_default")]
    pub video: Option<u32>,
}

/// Errors of memory, where the card corrects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Ecc {
    /// Whether the card corrects errors. Where it does not, the counts are not supported.
    pub enabled: bool,
    /// Since the driver was loaded.
    pub volatile: EccCounts,
    /// Since the card was made.
    pub aggregate: EccCounts,
}

impl Default for Ecc {
    fn default() -> Self {
        Self { enabled: true, volatile: EccCounts::default(), aggregate: EccCounts::default() }
    }
}

/// How many errors there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct EccCounts {
    /// Of one bit.
    pub corrected: u64,
    /// Of more.
    pub uncorrected: u64,
}

/// Rows of memory that were replaced by spare ones; since Ampere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RemappedRows {
    /// For errors that were corrected.
    pub correctable: u32,
    /// For errors that were not.
    pub uncorrectable: u32,
    /// Some will be replaced at the next reset.
    pub pending: bool,
    /// Some could not be replaced.
    pub failed: bool,
}

/// Why the clocks are lower than they could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleReason {
    /// Nothing to do.
    GpuIdle,
    /// The user limits them.
    ApplicationsClocksSetting,
    /// The power limit.
    SwPowerCap,
    /// The hardware slows down by half or more.
    HwSlowdown,
    /// Cards that keep pace with each other.
    SyncBoost,
    /// Too hot, says the driver.
    SwThermalSlowdown,
    /// Too hot, says the hardware.
    HwThermalSlowdown,
    /// The power supply asks for it.
    HwPowerBrakeSlowdown,
}

impl ThrottleReason {
    /// NVML's bit for it.
    pub fn bit(self) -> u64 {
        u64::from(match self {
            Self::GpuIdle => nvml::nvmlClocksEventReasonGpuIdle,
            Self::ApplicationsClocksSetting => nvml::nvmlClocksEventReasonApplicationsClocksSetting,
            Self::SwPowerCap => nvml::nvmlClocksEventReasonSwPowerCap,
            Self::HwSlowdown => nvml::nvmlClocksThrottleReasonHwSlowdown,
            Self::SyncBoost => nvml::nvmlClocksEventReasonSyncBoost,
            Self::SwThermalSlowdown => nvml::nvmlClocksEventReasonSwThermalSlowdown,
            Self::HwThermalSlowdown => nvml::nvmlClocksThrottleReasonHwThermalSlowdown,
            Self::HwPowerBrakeSlowdown => nvml::nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
        })
    }
}

/// What the performance monitors of Hopper and later say: NVML's number of the metric, and its value, in percent or MiB/s.
/// What is not there is 0.
pub type Gpm = BTreeMap<u32, f64>;
