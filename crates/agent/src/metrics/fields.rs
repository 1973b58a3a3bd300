//! The fields, with DCGM's names and units, and where each comes from.

use prometheus_client::metrics::MetricType;

use crate::nvml::{Activity, Ecc, Memory, RemappedRows, Sample};

/// A value: integers are printed as such.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Integer(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

/// A field of an entity that measures `T`.
pub(super) struct Field<T> {
    pub name: &'static str,
    pub kind: MetricType,
    pub help: &'static str,
    pub value: fn(&T) -> Option<Number>,
}

const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<Number>) -> Field<T> {
    Field { name, kind: MetricType::Gauge, help, value }
}

const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<Number>) -> Field<T> {
    Field { name, kind: MetricType::Counter, help, value }
}

fn integer(value: Option<impl Into<Number>>) -> Option<Number> {
    value.map(Into::into)
}

fn yes(value: bool) -> Number {
    Number::Integer(u64::from(value))
}

fn ecc(sample: &Sample, of: fn(&Ecc) -> Option<u64>) -> Option<Number> {
    integer(of(&sample.ecc))
}

fn rows(sample: &Sample, of: fn(&RemappedRows) -> Number) -> Option<Number> {
    sample.remapped_rows.as_ref().map(of)
}

/// Fields of cards.
pub(super) const CARD: &[Field<Sample>] = &[
    gauge("DCGM_FI_DEV_SM_CLOCK", "Clock of the multiprocessors in MHz", |s| integer(s.sm_clock)),
    gauge("DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory in MHz", |s| integer(s.memory_clock)),
    gauge("DCGM_FI_DEV_MEMORY_TEMP", "Temperature of the memory in C", |s| integer(s.memory_temperature)),
    gauge("DCGM_FI_DEV_GPU_TEMP", "Temperature of the GPU in C", |s| integer(s.temperature)),
    gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw in W", |s| s.power_mw.map(|mw| Number::Real(f64::from(mw) / 1000.0))),
    counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy in mJ since the driver was loaded", |s| {
        integer(s.energy_mj)
    }),
    counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe packets that were sent again", |s| integer(s.pcie_replays)),
    gauge("DCGM_FI_DEV_GPU_UTIL", "Time in which the GPU computed, in percent", |s| integer(s.gpu_utilization)),
    gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Time in which memory was read or written, in percent", |s| {
        integer(s.memory_utilization)
    }),
    gauge("DCGM_FI_DEV_ENC_UTIL", "Use of the encoder in percent", |s| integer(s.encoder_utilization)),
    gauge("DCGM_FI_DEV_DEC_UTIL", "Use of the decoder in percent", |s| integer(s.decoder_utilization)),
    gauge("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Why clocks are held down, as NVML's bits", |s| integer(s.clock_reasons)),
    counter("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "Rate over all NVLinks in MB/s, both ways together", |s| {
        integer(s.nvlink_mb_per_second)
    }),
    counter("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected memory errors since the driver was loaded", |s| {
        ecc(s, |e| e.corrected_volatile)
    }),
    counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected memory errors since the driver was loaded", |s| {
        ecc(s, |e| e.uncorrected_volatile)
    }),
    counter("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "Corrected memory errors ever", |s| ecc(s, |e| e.corrected_aggregate)),
    counter("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "Uncorrected memory errors ever", |s| ecc(s, |e| e.uncorrected_aggregate)),
    counter("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows of memory replaced after uncorrectable errors", |s| {
        rows(s, |r| r.uncorrectable.into())
    }),
    counter("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows of memory replaced after correctable errors", |s| {
        rows(s, |r| r.correctable.into())
    }),
    gauge("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1 if a row of memory could not be replaced", |s| {
        rows(s, |r| yes(r.failed))
    }),
];

/// Fields of the memory of a card or GPU instance.
pub(super) const MEMORY: &[Field<Memory>] = &[
    gauge("DCGM_FI_DEV_FB_FREE", "Free memory in MiB", |m| Some(m.free.0.into())),
    gauge("DCGM_FI_DEV_FB_USED", "Used memory in MiB", |m| Some(m.used.0.into())),
    gauge("DCGM_FI_DEV_FB_RESERVED", "Memory in MiB that the driver keeps for itself", |m| {
        integer(m.reserved.map(|mib| mib.0))
    }),
];

fn share(value: Option<f64>) -> Option<Number> {
    value.map(Number::Real)
}

/// Bytes a second: whole ones, as DCGM has them.
fn bytes(value: Option<f64>) -> Option<Number> {
    // A cast from a float saturates, and a rate is no exact number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and rates are not negative"
    )]
    value.map(|rate| Number::Integer(rate.round() as u64))
}

/// Fields of what the engines of a card or GPU instance do.
pub(super) const ACTIVITY: &[Field<Activity>] = &[
    gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Share of the time in which anything ran", |a| share(a.graphics_engine)),
    gauge("DCGM_FI_PROF_SM_ACTIVE", "Share of the multiprocessors that were busy", |a| share(a.sm)),
    gauge("DCGM_FI_PROF_SM_OCCUPANCY", "Share of the possible warps that were there", |a| share(a.sm_occupancy)),
    gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Share of the time in which tensor cores worked", |a| share(a.tensor)),
    gauge("DCGM_FI_PROF_DRAM_ACTIVE", "Share of the memory's bandwidth", |a| share(a.dram)),
    gauge("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "Share of the time in which the 64 bit pipe worked", |a| share(a.fp64)),
    gauge("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "Share of the time in which the 32 bit pipe worked", |a| share(a.fp32)),
    gauge("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "Share of the time in which the 16 bit pipe worked", |a| share(a.fp16)),
    gauge("DCGM_FI_PROF_PCIE_TX_BYTES", "Bytes a second sent over PCIe", |a| bytes(a.pcie_tx)),
    gauge("DCGM_FI_PROF_PCIE_RX_BYTES", "Bytes a second received over PCIe", |a| bytes(a.pcie_rx)),
    gauge("DCGM_FI_PROF_NVLINK_TX_BYTES", "Bytes a second sent over NVLink", |a| bytes(a.nvlink_tx)),
    gauge("DCGM_FI_PROF_NVLINK_RX_BYTES", "Bytes a second received over NVLink", |a| bytes(a.nvlink_rx)),
];
