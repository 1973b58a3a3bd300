//! NVML's calls on GPU instances and compute instances. The safe wrapper has none of them.
#![allow(unsafe_code, reason = "calls into a C library; each block says what makes it sound")]

use std::mem;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings as sys;

use crate::inventory::Placement;

/// As many instances as any card takes, several times over.
const MOST: usize = 64;

type Answer<T> = Result<T, NvmlError>;

/// A GPU instance of a library that lives at least as long.
#[derive(Clone, Copy)]
pub struct GpuHandle<'a>(sys::nvmlGpuInstance_t, &'a Device<'a>);

/// A compute instance, likewise.
#[derive(Clone, Copy)]
pub struct ComputeHandle<'a>(sys::nvmlComputeInstance_t, &'a Device<'a>);

/// A number, the id of a profile, and a place: of a GPU instance or of a compute instance.
pub type Info = (u32, u32, Placement);

/// The GPU instances of the profile with this id.
pub fn gpu_instances<'a>(device: &'a Device<'a>, profile_id: u32) -> Answer<Vec<GpuHandle<'a>>> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuInstances.as_ref())?;
    // SAFETY: handles are pointers that the call fills in. It wants room for all that the profile allows, and no profile
    // allows as many.
    unsafe {
        let mut found: Vec<sys::nvmlGpuInstance_t> = vec![mem::zeroed(); MOST];
        let mut count = MOST as u32;
        nvml_try(call(device.handle(), profile_id, found.as_mut_ptr(), &mut count))?;
        Ok(found.into_iter().take(count as usize).map(|handle| GpuHandle(handle, device)).collect())
    }
}

/// The GPU instance with this number.
pub fn gpu_instance<'a>(device: &'a Device<'a>, id: u32) -> Answer<GpuHandle<'a>> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuInstanceById.as_ref())?;
    // SAFETY: the handle is a pointer that the call fills in.
    unsafe {
        let mut found: sys::nvmlGpuInstance_t = mem::zeroed();
        nvml_try(call(device.handle(), id, &mut found))?;
        Ok(GpuHandle(found, device))
    }
}

/// Makes a GPU instance of the profile with this id at this place.
pub fn create_gpu_instance<'a>(device: &'a Device<'a>, profile_id: u32, placement: Placement) -> Answer<GpuHandle<'a>> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceCreateGpuInstanceWithPlacement.as_ref())?;
    let place = sys::nvmlGpuInstancePlacement_t { start: placement.start, size: placement.size };
    // SAFETY: the place is read, and the handle is a pointer that the call fills in.
    unsafe {
        let mut made: sys::nvmlGpuInstance_t = mem::zeroed();
        nvml_try(call(device.handle(), profile_id, &place, &mut made))?;
        Ok(GpuHandle(made, device))
    }
}

impl<'a> GpuHandle<'a> {
    fn lib(&self) -> &sys::NvmlLib {
        self.1.nvml().lib()
    }

    /// Its number, profile and place.
    pub fn info(self) -> Answer<Info> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceGetInfo.as_ref())?;
        // SAFETY: the handle is NVML's, and the struct is plain numbers and a pointer that the call fills in.
        let info = unsafe {
            let mut info: sys::nvmlGpuInstanceInfo_t = mem::zeroed();
            nvml_try(call(self.0, &mut info))?;
            info
        };
        Ok((info.id, info.profileId, Placement { start: info.placement.start, size: info.placement.size }))
    }

    /// Takes it away. It must not be cut any more.
    pub fn destroy(self) -> Answer<()> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceDestroy.as_ref())?;
        // SAFETY: the handle is NVML's.
        nvml_try(unsafe { call(self.0) })
    }

    /// The id and slices of the compute profile with this number, its engines being shared.
    pub fn compute_profile(self, number: u32) -> Answer<(u32, u32)> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceGetComputeInstanceProfileInfo.as_ref())?;
        let engines = sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
        // SAFETY: the handle is NVML's, and the struct is plain numbers that the call fills in.
        unsafe {
            let mut info: sys::nvmlComputeInstanceProfileInfo_t = mem::zeroed();
            nvml_try(call(self.0, number, engines, &mut info))?;
            Ok((info.id, info.sliceCount))
        }
    }

    /// Where compute instances of the profile with this id may lie in it.
    pub fn compute_placements(self, profile_id: u32) -> Answer<Vec<Placement>> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceGetComputeInstancePossiblePlacements.as_ref())?;
        // SAFETY: `count` tells the call how many entries the vector has, and it writes no more.
        unsafe {
            let mut found: Vec<sys::nvmlComputeInstancePlacement_t> = vec![mem::zeroed(); MOST];
            let mut count = MOST as u32;
            nvml_try(call(self.0, profile_id, found.as_mut_ptr(), &mut count))?;
            let place = |found: sys::nvmlComputeInstancePlacement_t| Placement { start: found.start, size: found.size };
            Ok(found.into_iter().take(count as usize).map(place).collect())
        }
    }

    /// Its compute instances of the profile with this id.
    pub fn compute_instances(self, profile_id: u32) -> Answer<Vec<ComputeHandle<'a>>> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceGetComputeInstances.as_ref())?;
        // SAFETY: handles are pointers that the call fills in, and there is room for more than any profile allows.
        unsafe {
            let mut found: Vec<sys::nvmlComputeInstance_t> = vec![mem::zeroed(); MOST];
            let mut count = MOST as u32;
            nvml_try(call(self.0, profile_id, found.as_mut_ptr(), &mut count))?;
            Ok(found.into_iter().take(count as usize).map(|handle| ComputeHandle(handle, self.1)).collect())
        }
    }

    /// Its compute instance with this number.
    pub fn compute_instance(self, id: u32) -> Answer<ComputeHandle<'a>> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceGetComputeInstanceById.as_ref())?;
        // SAFETY: the handle is a pointer that the call fills in.
        unsafe {
            let mut found: sys::nvmlComputeInstance_t = mem::zeroed();
            nvml_try(call(self.0, id, &mut found))?;
            Ok(ComputeHandle(found, self.1))
        }
    }

    /// Cuts a compute instance of the profile with this id out of it, where the driver likes.
    pub fn create_compute_instance(self, profile_id: u32) -> Answer<()> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceCreateComputeInstance.as_ref())?;
        // SAFETY: the handle is NVML's, and the new one is a pointer that the call fills in.
        unsafe {
            let mut made: sys::nvmlComputeInstance_t = mem::zeroed();
            nvml_try(call(self.0, profile_id, &mut made))
        }
    }

    /// The same at this place.
    pub fn create_compute_instance_at(self, profile_id: u32, placement: Placement) -> Answer<()> {
        let call = nvml_sym(self.lib().nvmlGpuInstanceCreateComputeInstanceWithPlacement.as_ref())?;
        let place = sys::nvmlComputeInstancePlacement_t { start: placement.start, size: placement.size };
        // SAFETY: the handle is NVML's, the place is read, and the new handle is a pointer that the call fills in.
        unsafe {
            let mut made: sys::nvmlComputeInstance_t = mem::zeroed();
            nvml_try(call(self.0, profile_id, &place, &mut made))
        }
    }
}

impl ComputeHandle<'_> {
    /// Its number, profile and place.
    pub fn info(self) -> Answer<Info> {
        let call = nvml_sym(self.1.nvml().lib().nvmlComputeInstanceGetInfo_v2.as_ref())?;
        // SAFETY: the handle is NVML's, and the struct is plain numbers and pointers that the call fills in.
        let info = unsafe {
            let mut info: sys::nvmlComputeInstanceInfo_t = mem::zeroed();
            nvml_try(call(self.0, &mut info))?;
            info
        };
        Ok((info.id, info.profileId, Placement { start: info.placement.start, size: info.placement.size }))
    }

    /// Takes it away.
    pub fn destroy(self) -> Answer<()> {
        let call = nvml_sym(self.1.nvml().lib().nvmlComputeInstanceDestroy.as_ref())?;
        // SAFETY: the handle is NVML's.
        nvml_try(unsafe { call(self.0) })
    }
}
