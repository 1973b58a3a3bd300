//! The performance monitors of Hopper and later.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    self as nvml, nvmlGpmMetric_t, nvmlGpmMetricsGet_t, nvmlGpmSample_st, nvmlGpmSupport_t,
};

use super::call::{Answer, exports};
use super::enumerate::DeviceHandle;
use super::pointer::{Handle, Pointer};
use crate::describe::{Gpm, NvmlError};
use crate::driver::{Driver, Target};
use crate::machine::Card;

/// What NVML calls a sample.
type SampleHandle = Handle<nvmlGpmSample_st>;

/// What stands before the metrics. How many of those there is room for differs between editions of NVML's header, so no more
/// of them is touched than the caller counts.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: c_uint,
    count: c_uint,
    samples: [*mut nvmlGpmSample_st; 2],
}

const _: () = assert!(size_of::<Head>() == std::mem::offset_of!(nvmlGpmMetricsGet_t, metrics));

fn number(driver: &Driver, sample: SampleHandle) -> Result<u64, NvmlError> {
    match driver.handles.target(sample.number())? {
        Target::Sample(number) if driver.samples.contains_key(number) => Ok(*number),
        _ => Err(NvmlError::InvalidArgument),
    }
}

fn monitored(driver: &Driver, device: DeviceHandle) -> Result<&Card, NvmlError> {
    let card = driver.gpu(device.number())?;
    if card.has_gpm() { Ok(card) } else { Err(NvmlError::NotSupported) }
}

fn take(driver: &mut Driver, sample: SampleHandle, values: Gpm) -> Answer {
    let number = number(driver, sample)?;
    driver.samples.insert(number, Some(values));
    Ok(())
}

/// The sample's values, if it was taken.
fn taken(driver: &Driver, sample: *mut nvmlGpmSample_st) -> Result<&Gpm, NvmlError> {
    let number = number(driver, Handle::new(sample.addr()))?;
    driver.samples.get(&number).and_then(Option::as_ref).ok_or(NvmlError::InvalidArgument)
}

/// Whether NVML has a metric of that number.
fn is_metric(id: u32) -> bool {
    (nvml::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL..nvml::nvmlGpmMetricId_t_NVML_GPM_METRIC_MAX).contains(&id)
}

fn measured(values: &Gpm, mut asked: nvmlGpmMetric_t) -> nvmlGpmMetric_t {
    if is_metric(asked.metricId) {
        asked.value = values.get(&asked.metricId).copied().unwrap_or(0.0);
        asked.nvmlReturn = nvml::nvmlReturn_enum_NVML_SUCCESS;
    } else {
        asked.nvmlReturn = NvmlError::InvalidArgument.code();
    }
    asked
}

exports! {
    fn nvmlGpmQueryDeviceSupport(device: DeviceHandle, support: Pointer<nvmlGpmSupport_t>) => |driver| {
        let supported = driver.gpu(device.number())?.has_gpm();
        let mut asked = support.get()?;
        if asked.version != nvml::NVML_GPM_SUPPORT_VERSION {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        asked.isSupportedDevice = supported.into();
        support.set(asked)
    };

    fn nvmlGpmSampleAlloc(sample: Pointer<SampleHandle>) => |driver| {
        sample.check()?;
        let number = driver.new_sample();
        sample.set(Handle::new(driver.handles.of(Target::Sample(number))))
    };

    fn nvmlGpmSampleFree(sample: SampleHandle) => |driver| {
        let number = number(driver, sample)?;
        driver.samples.remove(&number);
        Ok(())
    };

    fn nvmlGpmSampleGet(device: DeviceHandle, sample: SampleHandle) => |driver| {
        let values = monitored(driver, device)?.gpu.gpm.clone();
        take(driver, sample, values)
    };

    fn nvmlGpmMigSampleGet(device: DeviceHandle, instance: c_uint, sample: SampleHandle) => |driver| {
        let card = monitored(driver, device)?;
        let instance = card.instances.get(instance).ok_or(NvmlError::InvalidArgument)?;
        let described = card.description_of(instance).and_then(|described| described.gpm.as_ref());
        let values = described.unwrap_or(&card.gpu.gpm).clone();
        take(driver, sample, values)
    };

    /// Two samples are needed, and the values are of the second.
    fn nvmlGpmMetricsGet(metrics: Pointer<nvmlGpmMetricsGet_t>) => |driver| {
        let head = metrics.cast::<Head>().get()?;
        if head.version != nvml::NVML_GPM_METRICS_GET_VERSION {
            return Err(NvmlError::ArgumentVersionMismatch);
        }
        taken(driver, head.samples[0])?;
        let values = taken(driver, head.samples[1])?;
        let room = metrics.cast::<Head>().behind::<nvmlGpmMetric_t>();
        let asked = room.get_all(head.count as usize)?;
        room.set_all(&asked.into_iter().map(|asked| measured(values, asked)).collect::<Vec<_>>())
    };
}
