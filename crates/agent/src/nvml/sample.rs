//! What a card measures at one moment. A value that the card or the driver does not give is `None`.

use gpu_scheduler_engine::model::Mib;

/// One look at one card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Its memory.
    pub memory: Option<Memory>,
    /// Percent of the time in which it computed. Cards in MIG mode do not say.
    pub gpu_utilization: Option<u32>,
    /// Percent of the time in which its memory was read or written.
    pub memory_utilization: Option<u32>,
    /// Percent of the encoder's time.
    pub encoder_utilization: Option<u32>,
    /// Percent of the decoder's time.
    pub decoder_utilization: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Degrees Celsius of the memory.
    pub memory_temperature: Option<u64>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Millijoules since the driver was loaded.
    pub energy_mj: Option<u64>,
    /// MHz of the multiprocessors.
    pub sm_clock: Option<u32>,
    /// MHz of the memory.
    pub memory_clock: Option<u32>,
    /// Why it does not run faster: NVML's bits.
    pub clock_reasons: Option<u64>,
    /// NVLink in MB/s, both ways together; 0 at the first look.
    pub nvlink_mb_per_second: Option<u64>,
    /// Errors in memory.
    pub ecc: Ecc,
    /// Rows of memory that were replaced.
    pub remapped_rows: Option<RemappedRows>,
    /// PCIe packets sent again.
    pub pcie_replays: Option<u32>,
    /// Who uses it; `None`: it does not say, which is not nobody.
    pub processes: Option<Vec<Process>>,
    /// What its engines do, from Hopper on; nothing at the first look.
    pub activity: Option<Activity>,
    /// Its GPU instances in MIG mode, by id.
    pub instances: Vec<Instance>,
}

/// Memory of a card or GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// All of it.
    pub total: Mib,
    /// Neither used nor reserved.
    pub free: Mib,
    /// Used, without what is reserved, as nvidia-smi has it.
    pub used: Mib,
    /// Kept by the driver for itself. Drivers before 510 count it as used and do not say.
    pub reserved: Option<Mib>,
}

/// Errors in memory, corrected or not, since the driver was loaded and ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ecc {
    /// Corrected since the driver was loaded.
    pub corrected_volatile: Option<u64>,
    /// Not corrected since the driver was loaded.
    pub uncorrected_volatile: Option<u64>,
    /// Ever corrected.
    pub corrected_aggregate: Option<u64>,
    /// Ever not corrected.
    pub uncorrected_aggregate: Option<u64>,
}

/// Rows of memory that were replaced by spare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemappedRows {
    /// After errors that were corrected.
    pub correctable: u32,
    /// After errors that were not.
    pub uncorrectable: u32,
    /// Whether one could not be replaced.
    pub failed: bool,
}

/// A process on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its id, in the host's namespace.
    pub pid: u32,
    /// The GPU instance it is on, in MIG mode.
    pub gpu_instance: Option<u32>,
    /// The compute instance it is on, in MIG mode.
    pub compute_instance: Option<u32>,
    /// Memory that it uses; `None` where the driver does not say.
    pub used: Option<Mib>,
}

/// What the engines of a card or GPU instance did between two looks, as GPM counts it. Shares are 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Activity {
    /// Share of the time in which anything ran.
    pub graphics_engine: Option<f64>,
    /// Share of the multiprocessors that were busy.
    pub sm: Option<f64>,
    /// Share of the warps that could be there and were.
    pub sm_occupancy: Option<f64>,
    /// Share of the time in which the tensor cores worked.
    pub tensor: Option<f64>,
    /// Share of the memory's bandwidth.
    pub dram: Option<f64>,
    /// Share of the time in which the 64 bit pipe worked.
    pub fp64: Option<f64>,
    /// Share of the time in which the 32 bit pipe worked.
    pub fp32: Option<f64>,
    /// Share of the time in which the 16 bit pipe worked.
    pub fp16: Option<f64>,
    /// Bytes a second sent over PCIe.
    pub pcie_tx: Option<f64>,
    /// Bytes a second received over PCIe.
    pub pcie_rx: Option<f64>,
    /// Bytes a second sent over NVLink.
    pub nvlink_tx: Option<f64>,
    /// Bytes a second received over NVLink.
    pub nvlink_rx: Option<f64>,
}

/// A GPU instance of a card in MIG mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its id on the card.
    pub gpu_instance: u32,
    /// Its memory, which its compute instances share.
    pub memory: Option<Memory>,
    /// What its engines do, from Hopper on.
    pub activity: Option<Activity>,
}
