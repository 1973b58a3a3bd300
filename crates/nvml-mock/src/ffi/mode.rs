//! The modes of a card.

use std::ffi::c_uint;

use super::call::exports;
use super::enumerate::DeviceHandle;
use super::pointer::Pointer;
use crate::describe::{ComputeMode, NvmlError};

exports! {
    fn nvmlDeviceGetComputeMode(device: DeviceHandle, mode: Pointer<c_uint>) => |driver| {
        mode.set(driver.gpu(device.number())?.compute_mode.code())
    };

    fn nvmlDeviceSetComputeMode(device: DeviceHandle, mode: c_uint) => |driver| {
        let uuid = driver.gpu(device.number())?.uuid.clone();
        let mode = ComputeMode::of(mode).ok_or(NvmlError::InvalidArgument)?;
        driver.change(&uuid, |card| {
            card.compute_mode = mode;
            Ok(())
        })
    };

    fn nvmlDeviceGetPersistenceMode(device: DeviceHandle, mode: Pointer<c_uint>) => |driver| {
        mode.set(driver.gpu(device.number())?.gpu.persistence.into())
    };
}
