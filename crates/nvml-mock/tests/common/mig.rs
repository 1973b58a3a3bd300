//! Divides cards as C does.
#![allow(unsafe_code, reason = "nvml-wrapper reads MIG and does not write it")]

use std::ptr::null_mut;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlDevice_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t,
};

use super::{Loaded, SUCCESS};
use crate::raw;

/// NVML's errors, by number.
pub const INVALID_ARGUMENT: u32 = 2;
pub const NOT_SUPPORTED: u32 = 3;
pub const NOT_FOUND: u32 = 6;
pub const IN_USE: u32 = 19;
pub const INSUFFICIENT_RESOURCES: u32 = 23;

fn answer<T>(result: u32, value: T) -> Result<T, u32> {
    if result == SUCCESS { Ok(value) } else { Err(result) }
}

/// One card that is divided.
pub struct Divided<'a> {
    pub loaded: &'a Loaded,
    pub device: nvmlDevice_t,
}

impl<'a> Divided<'a> {
    pub fn of(loaded: &'a Loaded, gpu: u32) -> Self {
        Self { loaded, device: loaded.handle(gpu) }
    }

    /// The answer and the status.
    pub fn set_mode(&self, mode: u32) -> (u32, u32) {
        let mut status = u32::MAX;
        (raw!(self.loaded.nvml, nvmlDeviceSetMigMode(self.device, mode, &raw mut status)), status)
    }

    /// Now and after the next reset.
    pub fn mode(&self) -> (u32, u32) {
        let (mut current, mut pending) = (9, 9);
        let result = raw!(self.loaded.nvml, nvmlDeviceGetMigMode(self.device, &raw mut current, &raw mut pending));
        assert_eq!(result, SUCCESS);
        (current, pending)
    }

    /// What NVML says of a profile that is asked for by its number.
    pub fn profile(&self, number: u32) -> Result<nvmlGpuInstanceProfileInfo_t, u32> {
        // SAFETY: a structure of numbers.
        let mut info: nvmlGpuInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
        let device = self.device;
        answer(raw!(self.loaded.nvml, nvmlDeviceGetGpuInstanceProfileInfo(device, number, &raw mut info)), info)
    }

    /// Starts and sizes, in the order of NVML.
    pub fn placements(&self, profile: u32) -> Vec<(u32, u32)> {
        let (nvml, device) = (&self.loaded.nvml, self.device);
        let mut count = 0;
        let asked =
            raw!(nvml, nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile, null_mut(), &raw mut count));
        assert_eq!(asked, SUCCESS);
        let mut room = vec![nvmlGpuInstancePlacement_t { start: 99, size: 99 }; count as usize];
        let told = raw!(
            nvml,
            nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile, room.as_mut_ptr(), &raw mut count)
        );
        assert_eq!((told, count as usize), (SUCCESS, room.len()));
        room.iter().map(|placement| (placement.start, placement.size)).collect()
    }

    pub fn remaining(&self, profile: u32) -> Result<u32, u32> {
        let mut count = 99;
        let device = self.device;
        let result = raw!(self.loaded.nvml, nvmlDeviceGetGpuInstanceRemainingCapacity(device, profile, &raw mut count));
        answer(result, count)
    }

    pub fn create(&self, profile: u32, start: Option<u32>) -> Result<nvmlGpuInstance_t, u32> {
        let (nvml, device) = (&self.loaded.nvml, self.device);
        let mut instance = null_mut();
        let result = match start {
            None => raw!(nvml, nvmlDeviceCreateGpuInstance(device, profile, &raw mut instance)),
            Some(start) => {
                let placement = nvmlGpuInstancePlacement_t { start, size: 0 };
                raw!(
                    nvml,
                    nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, &raw const placement, &raw mut instance)
                )
            }
        };
        answer(result, instance)
    }

    pub fn info(&self, instance: nvmlGpuInstance_t) -> Result<nvmlGpuInstanceInfo_t, u32> {
        // SAFETY: a structure of numbers and a handle.
        let mut info: nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
        answer(raw!(self.loaded.nvml, nvmlGpuInstanceGetInfo(instance, &raw mut info)), info)
    }

    pub fn destroy(&self, instance: nvmlGpuInstance_t) -> Result<(), u32> {
        answer(raw!(self.loaded.nvml, nvmlGpuInstanceDestroy(instance)), ())
    }

    pub fn by_id(&self, id: u32) -> Result<nvmlGpuInstance_t, u32> {
        let mut instance = null_mut();
        let device = self.device;
        answer(raw!(self.loaded.nvml, nvmlDeviceGetGpuInstanceById(device, id, &raw mut instance)), instance)
    }

    /// Cuts a compute instance out of a GPU instance.
    pub fn cut(&self, instance: nvmlGpuInstance_t, profile: u32) -> Result<nvmlComputeInstance_t, u32> {
        let mut compute = null_mut();
        let result = raw!(self.loaded.nvml, nvmlGpuInstanceCreateComputeInstance(instance, profile, &raw mut compute));
        answer(result, compute)
    }

    pub fn destroy_compute(&self, compute: nvmlComputeInstance_t) -> Result<(), u32> {
        answer(raw!(self.loaded.nvml, nvmlComputeInstanceDestroy(compute)), ())
    }

    /// Names and UUIDs of the MIG devices.
    pub fn devices(&self) -> Vec<(String, String)> {
        // SAFETY: the handle is of this library.
        let gpu = unsafe { nvml_wrapper::Device::new(self.device, &self.loaded.nvml) };
        let devices = (0..7).map_while(|index| gpu.mig_device_by_index(index).ok());
        devices.map(|device| (device.name().unwrap(), device.uuid().unwrap())).collect()
    }
}
