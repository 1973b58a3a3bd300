//! What the cards measure.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::time::{SystemTime, UNIX_EPOCH};

use nvml_wrapper_sys::bindings::{self as nvml, field_id as fields};
use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlFieldValue_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlTemperature_v1_t, nvmlUtilization_t,
    nvmlValue_t,
};

use super::call::{Answer, exports};
use super::enumerate::DeviceHandle;
use super::pointer::{Pointer, version};
use crate::describe::{Architecture, EccCounts, Megabytes, NvmlError, Utilization};
use crate::driver::{Device, Driver};
use crate::machine::Card;

/// Microseconds since 1970, the time of NVML's samples.
pub(super) fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Total, reserved and used memory, in bytes. On a MIG device they are of its GPU instance.
fn memory(device: Device<'_>) -> (u64, u64, u64) {
    let (total, reserved, used) = match device {
        Device::Gpu(card) => (card.memory_total(), card.memory_reserved(), card.memory_used()),
        Device::Mig(mig) => (mig.gpu_instance.profile.memory, Megabytes(0), mig.memory_used()),
    };
    (total.bytes(), reserved.bytes(), used.bytes())
}

/// How busy a card is. In MIG's mode nobody counts it.
fn utilization(driver: &Driver, device: DeviceHandle) -> Result<Utilization, NvmlError> {
    let card = driver.gpu(device.number())?;
    if card.mig.enabled { Err(NvmlError::NotSupported) } else { Ok(card.gpu.utilization) }
}

/// How busy one engine is, and over which time that was measured.
fn engine(
    driver: &Driver,
    device: DeviceHandle,
    percent: Pointer<c_uint>,
    period: Pointer<c_uint>,
    of: impl Fn(Utilization) -> u32,
) -> Answer {
    period.check()?;
    percent.set(of(utilization(driver, device)?))?;
    period.set(200_000)
}

/// Watts as milliwatts.
fn milliwatts(watts: f64) -> u32 {
    // Saturates, and nobody describes a card of four megawatts.
    (watts * 1000.0).round() as u32
}

fn power_limit(card: &Card) -> u32 {
    milliwatts(card.gpu.power.limit.unwrap_or_else(|| card.model.power.into()))
}

fn clock(card: &Card, domain: c_uint) -> Result<u32, NvmlError> {
    let clocks = card.gpu.clocks;
    let described = match domain {
        nvml::nvmlClockType_enum_NVML_CLOCK_GRAPHICS => clocks.graphics,
        nvml::nvmlClockType_enum_NVML_CLOCK_SM => clocks.sm,
        nvml::nvmlClockType_enum_NVML_CLOCK_MEM => clocks.memory,
        nvml::nvmlClockType_enum_NVML_CLOCK_VIDEO => clocks.video,
        _ => return Err(NvmlError::InvalidArgument),
    };
    described.map_or_else(|| highest_clock(card, domain).map(|highest| highest / 3), Ok)
}

fn highest_clock(card: &Card, domain: c_uint) -> Result<u32, NvmlError> {
    match domain {
        nvml::nvmlClockType_enum_NVML_CLOCK_GRAPHICS
        | nvml::nvmlClockType_enum_NVML_CLOCK_SM
        | nvml::nvmlClockType_enum_NVML_CLOCK_VIDEO => Ok(card.model.sm_clock),
        nvml::nvmlClockType_enum_NVML_CLOCK_MEM => Ok(card.model.memory_clock),
        _ => Err(NvmlError::InvalidArgument),
    }
}

fn ecc(card: &Card, kind: c_uint, counter: c_uint) -> Result<u64, NvmlError> {
    let ecc = card.gpu.ecc;
    if !ecc.enabled {
        return Err(NvmlError::NotSupported);
    }
    let counts: EccCounts = match counter {
        nvml::nvmlEccCounterType_enum_NVML_VOLATILE_ECC => ecc.volatile,
        nvml::nvmlEccCounterType_enum_NVML_AGGREGATE_ECC => ecc.aggregate,
        _ => return Err(NvmlError::InvalidArgument),
    };
    match kind {
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED => Ok(counts.corrected),
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED => Ok(counts.uncorrected),
        _ => Err(NvmlError::InvalidArgument),
    }
}

/// Whether the card replaces rows of memory; older ones retire pages.
fn remaps_rows(card: &Card) -> bool {
    card.architecture >= Architecture::Ampere
}

fn throttle_reasons(driver: &Driver, device: DeviceHandle, reasons: Pointer<c_ulonglong>) -> Answer {
    let card = driver.gpu(device.number())?;
    reasons.set(card.gpu.throttle_reasons.iter().fold(0, |bits, reason| bits | reason.bit()))
}

/// The value of a field, with its type.
enum Value {
    Small(u32),
    Large(u64),
}

fn memory_temperature(card: &Card) -> Option<u32> {
    card.gpu.memory_temperature.or(card.model.hbm.then_some(card.gpu.temperature))
}

fn field(card: &Card, id: c_uint, scope: c_uint) -> Result<Value, NvmlError> {
    let counts = |kind, counter| ecc(card, kind, counter).map(Value::Large);
    let rows = || if remaps_rows(card) { Ok(card.gpu.remapped_rows) } else { Err(NvmlError::NotSupported) };
    let (corrected, uncorrected) = (
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED,
        nvml::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    );
    let (volatile, aggregate) =
        (nvml::nvmlEccCounterType_enum_NVML_VOLATILE_ECC, nvml::nvmlEccCounterType_enum_NVML_AGGREGATE_ECC);
    Ok(match id {
        fields::NVML_FI_DEV_ECC_SBE_VOL_TOTAL => return counts(corrected, volatile),
        fields::NVML_FI_DEV_ECC_DBE_VOL_TOTAL => return counts(uncorrected, volatile),
        fields::NVML_FI_DEV_ECC_SBE_AGG_TOTAL => return counts(corrected, aggregate),
        fields::NVML_FI_DEV_ECC_DBE_AGG_TOTAL => return counts(uncorrected, aggregate),
        fields::NVML_FI_DEV_MEMORY_TEMP => Value::Small(memory_temperature(card).ok_or(NvmlError::NotSupported)?),
        fields::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION => Value::Large(card.gpu.energy),
        fields::NVML_FI_DEV_NVLINK_LINK_COUNT => Value::Small(card.model.links),
        fields::NVML_FI_DEV_PCIE_REPLAY_COUNTER => Value::Small(card.gpu.pci.replays),
        fields::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX | fields::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX => {
            Value::Large(link_traffic(card, scope, |link| link.tx)?)
        }
        fields::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX | fields::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX => {
            Value::Large(link_traffic(card, scope, |link| link.rx)?)
        }
        fields::NVML_FI_DEV_REMAPPED_COR => Value::Small(rows()?.correctable),
        fields::NVML_FI_DEV_REMAPPED_UNC => Value::Small(rows()?.uncorrectable),
        fields::NVML_FI_DEV_REMAPPED_PENDING => Value::Small(rows()?.pending.into()),
        fields::NVML_FI_DEV_REMAPPED_FAILURE => Value::Small(rows()?.failed.into()),
        fields::NVML_FI_DEV_POWER_AVERAGE | fields::NVML_FI_DEV_POWER_INSTANT => {
            Value::Small(milliwatts(card.gpu.power.usage))
        }
        _ => return Err(NvmlError::NotSupported),
    })
}

/// The traffic of one link, or of all where the scope is the largest number.
fn link_traffic(card: &Card, scope: c_uint, of: impl Fn(&crate::describe::Link) -> u64) -> Result<u64, NvmlError> {
    if card.model.links == 0 {
        return Err(NvmlError::NotSupported);
    }
    if scope == c_uint::MAX {
        return Ok(card.links.iter().map(of).sum());
    }
    if scope >= card.model.links {
        return Err(NvmlError::InvalidArgument);
    }
    Ok(card.links.get(scope as usize).map_or(0, of))
}

/// Fills in one field value. That the card does not have it is said in it, and is no failure of the call.
fn fill(card: &Card, mut asked: nvmlFieldValue_t) -> nvmlFieldValue_t {
    asked.timestamp = now().cast_signed();
    asked.latencyUsec = 0;
    match field(card, asked.fieldId, asked.scopeId) {
        Ok(value) => {
            asked.nvmlReturn = nvml::nvmlReturn_enum_NVML_SUCCESS;
            (asked.valueType, asked.value) = match value {
                // All of the union is written, so that the caller may read it as either type. Its systems are little-endian.
                Value::Small(value) => {
                    (nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT, nvmlValue_t { ullVal: value.into() })
                }
                Value::Large(value) => {
                    (nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, nvmlValue_t { ullVal: value })
                }
            };
        }
        Err(error) => asked.nvmlReturn = error.code(),
    }
    asked
}

exports! {
    fn nvmlDeviceGetMemoryInfo(device: DeviceHandle, info: Pointer<nvmlMemory_t>) => |driver| {
        let (total, reserved, used) = memory(driver.device(device.number())?);
        // The older structure has no word for what is reserved, and counts it as used.
        let used = used + reserved;
        info.set(nvmlMemory_t { total, free: total.saturating_sub(used), used })
    };

    fn nvmlDeviceGetMemoryInfo_v2(device: DeviceHandle, info: Pointer<nvmlMemory_v2_t>) => |driver| {
        let (total, reserved, used) = memory(driver.device(device.number())?);
        let edition = info.cast::<c_uint>().get()?;
        if edition != version::<nvmlMemory_v2_t>(2) {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        let free = total.saturating_sub(used + reserved);
        info.set(nvmlMemory_v2_t { version: edition, total, reserved, free, used })
    };

    fn nvmlDeviceGetBAR1MemoryInfo(device: DeviceHandle, info: Pointer<nvmlBAR1Memory_t>) => |driver| {
        let card = driver.device(device.number())?.card();
        let (total, used) = (card.model.bar1.bytes(), card.gpu.memory.bar1_used.bytes());
        info.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total.saturating_sub(used), bar1Used: used })
    };

    fn nvmlDeviceGetUtilizationRates(device: DeviceHandle, rates: Pointer<nvmlUtilization_t>) => |driver| {
        let Utilization { gpu, memory, .. } = utilization(driver, device)?;
        rates.set(nvmlUtilization_t { gpu, memory })
    };

    fn nvmlDeviceGetEncoderUtilization(
        device: DeviceHandle,
        percent: Pointer<c_uint>,
        period: Pointer<c_uint>,
    ) => |driver| engine(driver, device, percent, period, |busy| busy.enc);

    fn nvmlDeviceGetDecoderUtilization(
        device: DeviceHandle,
        percent: Pointer<c_uint>,
        period: Pointer<c_uint>,
    ) => |driver| engine(driver, device, percent, period, |busy| busy.dec);

    fn nvmlDeviceGetJpgUtilization(
        device: DeviceHandle,
        percent: Pointer<c_uint>,
        period: Pointer<c_uint>,
    ) => |driver| engine(driver, device, percent, period, |busy| busy.jpeg);

    fn nvmlDeviceGetOfaUtilization(
        device: DeviceHandle,
        percent: Pointer<c_uint>,
        period: Pointer<c_uint>,
    ) => |driver| engine(driver, device, percent, period, |busy| busy.ofa);

    fn nvmlDeviceGetTemperature(device: DeviceHandle, sensor: c_uint, degrees: Pointer<c_uint>) => |driver| {
        let card = driver.gpu(device.number())?;
        if sensor != nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU {
            return Err(NvmlError::InvalidArgument);
        }
        degrees.set(card.gpu.temperature)
    };

    fn nvmlDeviceGetTemperatureV(device: DeviceHandle, reading: Pointer<nvmlTemperature_v1_t>) => |driver| {
        let card = driver.gpu(device.number())?;
        let mut asked = reading.get()?;
        if asked.version != version::<nvmlTemperature_v1_t>(1) {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        if asked.sensorType != nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU {
            return Err(NvmlError::InvalidArgument);
        }
        asked.temperature = card.gpu.temperature.cast_signed();
        reading.set(asked)
    };

    fn nvmlDeviceGetPowerUsage(device: DeviceHandle, power: Pointer<c_uint>) => |driver| {
        power.set(milliwatts(driver.gpu(device.number())?.gpu.power.usage))
    };

    fn nvmlDeviceGetEnforcedPowerLimit(device: DeviceHandle, limit: Pointer<c_uint>) => |driver| {
        limit.set(power_limit(driver.gpu(device.number())?))
    };

    fn nvmlDeviceGetPowerManagementLimit(device: DeviceHandle, limit: Pointer<c_uint>) => |driver| {
        limit.set(power_limit(driver.gpu(device.number())?))
    };

    fn nvmlDeviceGetTotalEnergyConsumption(device: DeviceHandle, energy: Pointer<c_ulonglong>) => |driver| {
        energy.set(driver.gpu(device.number())?.gpu.energy)
    };

    fn nvmlDeviceGetClockInfo(device: DeviceHandle, domain: c_uint, mhz: Pointer<c_uint>) => |driver| {
        mhz.set(clock(driver.gpu(device.number())?, domain)?)
    };

    fn nvmlDeviceGetMaxClockInfo(device: DeviceHandle, domain: c_uint, mhz: Pointer<c_uint>) => |driver| {
        mhz.set(highest_clock(driver.gpu(device.number())?, domain)?)
    };

    fn nvmlDeviceGetPcieReplayCounter(device: DeviceHandle, count: Pointer<c_uint>) => |driver| {
        count.set(driver.gpu(device.number())?.gpu.pci.replays)
    };

    fn nvmlDeviceGetPcieThroughput(device: DeviceHandle, counter: c_uint, rate: Pointer<c_uint>) => |driver| {
        let pci = &driver.gpu(device.number())?.gpu.pci;
        rate.set(match counter {
            nvml::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_TX_BYTES => pci.tx,
            nvml::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_RX_BYTES => pci.rx,
            _ => return Err(NvmlError::InvalidArgument),
        })
    };

    fn nvmlDeviceGetFieldValues(device: DeviceHandle, count: c_int, values: Pointer<nvmlFieldValue_t>) => |driver| {
        let card = driver.gpu(device.number())?;
        let count = usize::try_from(count).map_err(|_| NvmlError::InvalidArgument)?;
        let filled: Vec<_> = values.check()?.get_all(count)?.into_iter().map(|asked| fill(card, asked)).collect();
        values.set_all(&filled)
    };

    fn nvmlDeviceGetEccMode(device: DeviceHandle, current: Pointer<c_uint>, pending: Pointer<c_uint>) => |driver| {
        pending.check()?;
        let enabled = driver.gpu(device.number())?.gpu.ecc.enabled;
        current.set(enabled.into())?;
        pending.set(enabled.into())
    };

    fn nvmlDeviceGetTotalEccErrors(
        device: DeviceHandle,
        kind: c_uint,
        counter: c_uint,
        count: Pointer<c_ulonglong>,
    ) => |driver| count.set(ecc(driver.gpu(device.number())?, kind, counter)?);

    fn nvmlDeviceGetRemappedRows(
        device: DeviceHandle,
        correctable: Pointer<c_uint>,
        uncorrectable: Pointer<c_uint>,
        pending: Pointer<c_uint>,
        failed: Pointer<c_uint>,
    ) => |driver| {
        uncorrectable.check()?;
        pending.check()?;
        failed.check()?;
        let card = driver.gpu(device.number())?;
        if !remaps_rows(card) {
            return Err(NvmlError::NotSupported);
        }
        let rows = card.gpu.remapped_rows;
        correctable.set(rows.correctable)?;
        uncorrectable.set(rows.uncorrectable)?;
        pending.set(rows.pending.into())?;
        failed.set(rows.failed.into())
    };

    fn nvmlDeviceGetRetiredPagesPendingStatus(device: DeviceHandle, pending: Pointer<c_uint>) => |driver| {
        pending.check()?;
        let card = driver.gpu(device.number())?;
        // Cards that replace rows retire no pages.
        if remaps_rows(card) { Err(NvmlError::NotSupported) } else { pending.set(card.gpu.remapped_rows.pending.into()) }
    };

    fn nvmlDeviceGetCurrentClocksThrottleReasons(device: DeviceHandle, reasons: Pointer<c_ulonglong>) => |driver| {
        throttle_reasons(driver, device, reasons)
    };

    fn nvmlDeviceGetCurrentClocksEventReasons(device: DeviceHandle, reasons: Pointer<c_ulonglong>) => |driver| {
        throttle_reasons(driver, device, reasons)
    };
}
