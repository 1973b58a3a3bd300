//! One card, or several that are alike.

use nvml_wrapper_sys::bindings as nvml;
use serde::{Deserialize, Serialize};

use super::{
    Architecture, Brand, Clocks, ComputeCapability, Ecc, Fabric, Failures, Gpm, Link, Memory, Mig, Pci, Power, Process,
    RemappedRows, ThrottleReason, Utilization, Xid, is_default,
};

/// A card. Only its model must be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gpu {
    /// How many cards there are of this description. What tells them apart (UUID, serial number, minor number, bus) can only
    /// be said where it is one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Which [model](crate::models) it is: `A100-SXM4-80GB`.
    pub model: String,
    /// Its UUID, with `GPU-` before it. By default it follows from the node's name and the card's index.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uuid: Option<String>,
    /// The product's name. By default the model's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// The product line. By default the model's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub brand: Option<Brand>,
    /// The chip's generation. By default the model's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub architecture: Option<Architecture>,
    /// The chip's abilities. By default the model's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute_capability: Option<ComputeCapability>,
    /// The serial number. By default it follows from the index.
    #[serde(default, skip_serializing_if = "is_default")]
    pub serial: Option<String>,
    /// The number in `/dev/nvidia0`. By default the index.
    #[serde(default, skip_serializing_if = "is_default")]
    pub minor: Option<u32>,
    /// The NUMA node that it is attached to; -1 where the machine has none. By default the cards are spread over the node's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub numa_node: Option<i32>,
    /// Its place on the bus.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pci: Pci,
    /// Its memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Memory,
    /// How busy it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub utilization: Utilization,
    /// How hot the chip is, in °C.
    #[serde(default, skip_serializing_if = "is_default")]
    pub temperature: u32,
    /// How hot the memory is, in °C, where it has a thermometer. By default as the chip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_temperature: Option<u32>,
    /// Its power.
    #[serde(default, skip_serializing_if = "is_default")]
    pub power: Power,
    /// What it has used since the driver was loaded, in mJ.
    #[serde(default, skip_serializing_if = "is_default")]
    pub energy: u64,
    /// Its clocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clocks: Clocks,
    /// Errors of its memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecc: Ecc,
    /// Rows of its memory that were replaced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remapped_rows: RemappedRows,
    /// Why its clocks are low.
    #[serde(default, skip_serializing_if = "is_default")]
    pub throttle_reasons: Vec<ThrottleReason>,
    /// Its NVLinks. Those of the model's that are not listed are down.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nvlink: Vec<Link>,
    /// Its fabric.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fabric: Option<Fabric>,
    /// How it is divided.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mig: Mig,
    /// What runs on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub processes: Vec<Process>,
    /// Who may compute on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compute_mode: ComputeMode,
    /// Whether the driver stays on it without clients.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub persistence: bool,
    /// What its performance monitors say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpm: Gpm,
    /// Critical errors so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xids: Vec<Xid>,
    /// Calls on this card that fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail: Failures,
    /// Whether it fell off the bus: then every call on it says so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: bool,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

impl Gpu {
    /// One idle card of the model.
    pub fn of(model: &str) -> Self {
        Self {
            count: 1,
            model: model.to_owned(),
            uuid: None,
            name: None,
            brand: None,
            architecture: None,
            compute_capability: None,
            serial: None,
            minor: None,
            numa_node: None,
            pci: Pci::default(),
            memory: Memory::default(),
            utilization: Utilization::default(),
            temperature: 0,
            memory_temperature: None,
            power: Power::default(),
            energy: 0,
            clocks: Clocks::default(),
            ecc: Ecc::default(),
            remapped_rows: RemappedRows::default(),
            throttle_reasons: Vec::new(),
            nvlink: Vec::new(),
            fabric: None,
            mig: Mig::default(),
            processes: Vec::new(),
            compute_mode: ComputeMode::default(),
            persistence: true,
            gpm: Gpm::new(),
            xids: Vec::new(),
            fail: Failures::new(),
            lost: false,
        }
    }
}

/// Who may compute on a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// Any number of processes.
    #[default]
    Default,
    /// None.
    Prohibited,
    /// One at a time.
    ExclusiveProcess,
}

impl ComputeMode {
    /// NVML's number for it.
    pub fn code(self) -> u32 {
        match self {
            Self::Default => nvml::nvmlComputeMode_enum_NVML_COMPUTEMODE_DEFAULT,
            Self::Prohibited => nvml::nvmlComputeMode_enum_NVML_COMPUTEMODE_PROHIBITED,
            Self::ExclusiveProcess => nvml::nvmlComputeMode_enum_NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
        }
    }

    /// The mode with that number. The one for threads, which NVML no longer has, is none.
    pub fn of(code: u32) -> Option<Self> {
        [Self::Default, Self::Prohibited, Self::ExclusiveProcess].into_iter().find(|mode| mode.code() == code)
    }
}
