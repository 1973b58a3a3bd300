//! What runs on the cards.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlProcessInfo_t, nvmlProcessUtilizationSample_t};

use super::call::{Answer, exports};
use super::enumerate::DeviceHandle;
use super::pointer::{Pointer, list};
use super::telemetry::now;
use crate::describe::{NvmlError, Process, ProcessKind, Utilization};
use crate::driver::{Device, Driver};

/// What stands for no instance.
pub(super) const NO_INSTANCE: u32 = u32::MAX;

fn processes(
    driver: &Driver,
    device: DeviceHandle,
    kind: ProcessKind,
    count: Pointer<c_uint>,
    room: Pointer<nvmlProcessInfo_t>,
) -> Answer {
    let device = driver.device(device.number())?;
    let enabled = device.card().mig.enabled;
    let here = |process: &&Process| match device {
        Device::Gpu(_) => true,
        Device::Mig(mig) => mig.runs(process),
    };
    // Outside the mode there are no instances to run on.
    let instance = |id: Option<u32>| id.filter(|_| enabled).unwrap_or(NO_INSTANCE);
    let info = |process: &Process| nvmlProcessInfo_t {
        pid: process.pid,
        usedGpuMemory: process.used.bytes(),
        gpuInstanceId: instance(process.gpu_instance),
        computeInstanceId: instance(process.gpu_instance.map(|_| process.compute_instance.unwrap_or(0))),
    };
    let found: Vec<_> = device.card().processes(kind).filter(here).map(info).collect();
    list(count, room, &found)
}

exports! {
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: DeviceHandle,
        count: Pointer<c_uint>,
        infos: Pointer<nvmlProcessInfo_t>,
    ) => |driver| processes(driver, device, ProcessKind::Compute, count, infos);

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: DeviceHandle,
        count: Pointer<c_uint>,
        infos: Pointer<nvmlProcessInfo_t>,
    ) => |driver| processes(driver, device, ProcessKind::Graphics, count, infos);

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: DeviceHandle,
        count: Pointer<c_uint>,
        infos: Pointer<nvmlProcessInfo_t>,
    ) => |driver| processes(driver, device, ProcessKind::Mps, count, infos);

    /// Samples of now, of each process that keeps the card busy. In MIG's mode nobody counts it.
    fn nvmlDeviceGetProcessUtilization(
        device: DeviceHandle,
        samples: Pointer<nvmlProcessUtilizationSample_t>,
        count: Pointer<c_uint>,
        last_seen: c_ulonglong,
    ) => |driver| {
        count.check()?;
        let card = driver.gpu(device.number())?;
        if card.mig.enabled {
            return Err(NvmlError::NotSupported);
        }
        let time = now();
        let busy = card.gpu.processes.iter().filter(|process| process.utilization != Utilization::default());
        let found: Vec<_> = busy
            .map(|process| nvmlProcessUtilizationSample_t {
                pid: process.pid,
                timeStamp: time,
                smUtil: process.utilization.gpu,
                memUtil: process.utilization.memory,
                encUtil: process.utilization.enc,
                decUtil: process.utilization.dec,
            })
            .collect();
        if found.is_empty() || last_seen >= time {
            return Err(NvmlError::NotFound);
        }
        if samples.is_null() {
            count.set(found.len().try_into().map_err(|_| NvmlError::Unknown)?)?;
            return Err(NvmlError::InsufficientSize);
        }
        list(count, samples, &found)
    };
}
