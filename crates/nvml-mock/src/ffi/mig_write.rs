//! Divides cards.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    self as nvml, nvmlComputeInstancePlacement_t, nvmlGpuInstancePlacement_t, nvmlReturn_t,
};

use super::call::{Answer, exports};
use super::enumerate::DeviceHandle;
use super::mig_read::{
    ComputeInstanceHandle, GpuInstanceHandle, compute_handle, identified, identified_compute, instance_handle,
};
use super::pointer::Pointer;
use crate::describe::{NvmlError, Process};
use crate::driver::Driver;
use crate::machine::Card;
use crate::mig::Refusal;

impl From<Refusal> for NvmlError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoRoom => Self::InsufficientResources,
            Refusal::NoSuchPlacement => Self::InvalidArgument,
        }
    }
}

/// Puts a card into the mode or out of it. With clients on the card, or instances, that has to wait for a reset.
fn set_mode(card: &mut Card, enabled: bool) -> Answer {
    card.mig.pending = enabled;
    if card.mig.enabled == enabled {
        return Ok(());
    }
    if !card.gpu.processes.is_empty() || !card.instances.is_empty() {
        return Err(NvmlError::InUse);
    }
    card.mig.enabled = enabled;
    Ok(())
}

fn create_gpu_instance(
    driver: &mut Driver,
    device: DeviceHandle,
    profile: c_uint,
    start: Option<u32>,
    instance: Pointer<GpuInstanceHandle>,
) -> Answer {
    instance.check()?;
    let (card, table) = driver.divided(device.number())?;
    let profile = identified(table, profile)?;
    let card = card.uuid.clone();
    let id = driver.change(&card, |card| Ok(card.instances.create(profile, start)?))?;
    instance.set(instance_handle(&mut driver.handles, &card, id, profile.id))
}

fn create_compute_instance(
    driver: &mut Driver,
    instance: GpuInstanceHandle,
    profile: c_uint,
    start: Option<u32>,
    compute: Pointer<ComputeInstanceHandle>,
) -> Answer {
    compute.check()?;
    let (card, instance) = driver.gpu_instance(instance.number())?;
    let profile = identified_compute(instance.profile, profile)?;
    let (card, instance) = (card.uuid.clone(), instance.id);
    let id = driver.change(&card, |card| {
        // Another process may have taken it away since.
        let instance = card.instances.get_mut(instance).ok_or(NvmlError::InvalidArgument)?;
        Ok(instance.create(profile, start)?)
    })?;
    compute.set(compute_handle(&mut driver.handles, &card, instance, id, profile.id))
}

exports! {
    /// Whether the mode was reached is in the status, not in the answer.
    fn nvmlDeviceSetMigMode(device: DeviceHandle, mode: c_uint, status: Pointer<nvmlReturn_t>) => |driver| {
        status.check()?;
        let card = driver.divisible(device.number())?.0.uuid.clone();
        let enabled = match mode {
            nvml::NVML_DEVICE_MIG_DISABLE => false,
            nvml::NVML_DEVICE_MIG_ENABLE => true,
            _ => return Err(NvmlError::InvalidArgument),
        };
        let reached = driver.change(&card, |card| Ok(set_mode(card, enabled)))?;
        status.set(reached.map_or_else(NvmlError::code, |()| nvml::nvmlReturn_enum_NVML_SUCCESS))
    };

    fn nvmlDeviceCreateGpuInstance(
        device: DeviceHandle,
        profile: c_uint,
        instance: Pointer<GpuInstanceHandle>,
    ) => |driver| create_gpu_instance(driver, device, profile, None, instance);

    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        device: DeviceHandle,
        profile: c_uint,
        placement: Pointer<nvmlGpuInstancePlacement_t>,
        instance: Pointer<GpuInstanceHandle>,
    ) => |driver| {
        let start = placement.get()?.start;
        create_gpu_instance(driver, device, profile, Some(start), instance)
    };

    fn nvmlGpuInstanceDestroy(instance: GpuInstanceHandle) => |driver| {
        let (card, instance) = driver.gpu_instance(instance.number())?;
        let (card, id) = (card.uuid.clone(), instance.id);
        driver.change(&card, |card| {
            let instance = card.instances.get(id).ok_or(NvmlError::InvalidArgument)?;
            let runs = |process: &Process| process.gpu_instance == Some(id);
            if !instance.compute.is_empty() || card.gpu.processes.iter().any(runs) {
                return Err(NvmlError::InUse);
            }
            card.instances.destroy(id);
            Ok(())
        })
    };

    fn nvmlGpuInstanceCreateComputeInstance(
        instance: GpuInstanceHandle,
        profile: c_uint,
        compute: Pointer<ComputeInstanceHandle>,
    ) => |driver| create_compute_instance(driver, instance, profile, None, compute);

    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        instance: GpuInstanceHandle,
        profile: c_uint,
        placement: Pointer<nvmlComputeInstancePlacement_t>,
        compute: Pointer<ComputeInstanceHandle>,
    ) => |driver| {
        let start = placement.get()?.start;
        create_compute_instance(driver, instance, profile, Some(start), compute)
    };

    fn nvmlComputeInstanceDestroy(compute: ComputeInstanceHandle) => |driver| {
        let (card, instance, compute) = driver.compute_instance(compute.number())?;
        let (card, instance, id) = (card.uuid.clone(), instance.id, compute.id);
        driver.change(&card, |card| {
            let gone = card.mig_devices().find(|each| each.gpu_instance.id == instance && each.compute_instance.id == id);
            let device = gone.ok_or(NvmlError::InvalidArgument)?;
            if card.gpu.processes.iter().any(|process| device.runs(process)) {
                return Err(NvmlError::InUse);
            }
            card.instances.get_mut(instance).ok_or(NvmlError::InvalidArgument)?.destroy(id);
            Ok(())
        })
    };
}
