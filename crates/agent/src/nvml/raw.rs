//! NVML calls that the safe wrapper does not make, or makes wrongly.
//!
//! | call | why |
//! |---|---|
//! | `nvmlDeviceGetMemoryInfo` | drivers before 510 have no `_v2`, and the wrapper no other |
//! | `nvmlDeviceGet…RunningProcesses_v3` | a process that starts between the two calls makes the wrapper's fail |
//! | `nvmlDeviceGetFieldValues` | the wrapper sets no scope, and NVLink's throughput needs one: all links |
//! | `nvmlDeviceGetNvLinkRemoteDeviceType` | the wrapper drops the answer and always says that it is unknown |
//! | `nvmlDeviceGetRemappedRows`, `nvmlDeviceGetGpuFabricInfo` | the wrapper has neither |
//! | `nvmlDeviceGetGpuInstanceId` and its kin | the wrapper has none of them |
//! | `nvmlDeviceGetGpuInstancePossiblePlacements_v2` | the wrapper's answer is always empty |
//! | `nvmlDeviceRegisterEvents`, `nvmlEventSetWait_v2` | the wrapper gives up a set whose card cannot be added, and drops an event's instances |
#![allow(unsafe_code, reason = "calls into a C library; each block says what makes it sound")]

use std::mem;
use std::sync::Arc;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::gpm::GpmSample;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

use super::xid::XidEvent;
use crate::inventory::{GpuUuid, Placement};

/// What an id is where it says nothing: no instance, or all of them.
const NONE: u32 = u32::MAX;
/// As many processes as any card was seen with, several times over.
const MOST_PROCESSES: usize = 1 << 16;
/// As many placements as any profile has, several times over.
const MOST_PLACEMENTS: u32 = 256;

type Answer<T> = Result<T, NvmlError>;

/// Bytes of a card: total, free, used, reserved ones among the used.
pub fn memory_v1(device: &Device<'_>) -> Answer<sys::nvmlMemory_t> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: the handle is NVML's own, and the struct is plain numbers that the call fills in.
    unsafe {
        let mut memory: sys::nvmlMemory_t = mem::zeroed();
        nvml_try(call(device.handle(), &mut memory))?;
        Ok(memory)
    }
}

/// A list of running processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessList {
    /// Those that compute.
    Compute,
    /// Those that draw.
    Graphics,
    /// Those that compute through an MPS server.
    Mps,
}

impl ProcessList {
    /// All of them, with the call that gives each.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Compute, "nvmlDeviceGetComputeRunningProcesses_v3"),
        (Self::Graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3"),
        (Self::Mps, "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
    ];
}

/// The processes of a list. The room grows until they fit, so one that starts meanwhile does no harm.
pub fn processes(device: &Device<'_>, list: ProcessList) -> Answer<Vec<sys::nvmlProcessInfo_t>> {
    let lib = device.nvml().lib();
    let call = match list {
        ProcessList::Compute => nvml_sym(lib.nvmlDeviceGetComputeRunningProcesses_v3.as_ref())?,
        ProcessList::Graphics => nvml_sym(lib.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref())?,
        ProcessList::Mps => nvml_sym(lib.nvmlDeviceGetMPSComputeRunningProcesses_v3.as_ref())?,
    };
    let mut room = 64_usize;
    loop {
        // SAFETY: `count` tells the call how many entries the vector has, and it writes no more.
        let (code, mut found, count) = unsafe {
            let mut found: Vec<sys::nvmlProcessInfo_t> = vec![mem::zeroed(); room];
            let mut count = u32::try_from(room).unwrap_or(u32::MAX);
            (call(device.handle(), &mut count, found.as_mut_ptr()), found, count)
        };
        if code == sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE && room < MOST_PROCESSES {
            room = (room * 2).max(count as usize + 8).min(MOST_PROCESSES);
            continue;
        }
        nvml_try(code)?;
        found.truncate(count as usize);
        return Ok(found);
    }
}

/// KiB received and sent over all NVLinks of a card since it began to count.
pub fn nvlink_throughput(device: &Device<'_>) -> Answer<(u64, u64)> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    // SAFETY: the length goes with the array, the structs are plain numbers, and the union is read as what the card
    // says it holds.
    unsafe {
        let mut fields: [sys::nvmlFieldValue_t; 2] = [mem::zeroed(); 2];
        fields[0].fieldId = sys::field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX;
        fields[1].fieldId = sys::field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
        for field in &mut fields {
            field.scopeId = u32::MAX; // all links together
        }
        nvml_try(call(device.handle(), 2, fields.as_mut_ptr()))?;
        let value = |field: &sys::nvmlFieldValue_t| {
            nvml_try(field.nvmlReturn)?;
            match field.valueType {
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => Ok(u64::from(field.value.uiVal)),
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG
                | sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => Ok(field.value.ullVal),
                other => Err(NvmlError::UnexpectedVariant(other)),
            }
        };
        Ok((value(&fields[0])?, value(&fields[1])?))
    }
}

/// Whether an NVSwitch is at the other end of a lane.
pub fn leads_to_switch(device: &Device<'_>, lane: u32) -> Answer<bool> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
    let mut kind = sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    // SAFETY: a number of this frame, which the call fills in.
    nvml_try(unsafe { call(device.handle(), lane, &mut kind) })?;
    Ok(kind == sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH)
}

/// Rows remapped after correctable and after uncorrectable errors, and whether a remapping failed.
pub fn remapped_rows(device: &Device<'_>) -> Answer<(u32, u32, bool)> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetRemappedRows.as_ref())?;
    let (mut correctable, mut uncorrectable, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: four numbers of this frame, which the call fills in.
    nvml_try(unsafe { call(device.handle(), &mut correctable, &mut uncorrectable, &mut pending, &mut failed) })?;
    Ok((correctable, uncorrectable, failed != 0))
}

/// The cluster UUID and clique of a card whose fabric is complete; `None` before, or where there is no fabric.
pub fn fabric(device: &Device<'_>) -> Answer<Option<([u8; 16], u32)>> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuFabricInfo.as_ref())?;
    // SAFETY: the struct is plain numbers that the call fills in; this one has no version.
    let info = unsafe {
        let mut info: sys::nvmlGpuFabricInfo_t = mem::zeroed();
        nvml_try(call(device.handle(), &mut info))?;
        info
    };
    let complete = u32::from(info.state) == sys::NVML_GPU_FABRIC_STATE_COMPLETED
        && info.status == sys::nvmlReturn_enum_NVML_SUCCESS;
    Ok(complete.then_some((info.clusterUuid, info.cliqueId)))
}

/// The ids of a MIG device's GPU instance and compute instance.
pub fn instance_ids(device: &Device<'_>) -> Answer<(u32, u32)> {
    let lib = device.nvml().lib();
    let gpu = nvml_sym(lib.nvmlDeviceGetGpuInstanceId.as_ref())?;
    let compute = nvml_sym(lib.nvmlDeviceGetComputeInstanceId.as_ref())?;
    let (mut gpu_id, mut compute_id) = (0, 0);
    // SAFETY: numbers of this frame, which the calls fill in.
    unsafe {
        nvml_try(gpu(device.handle(), &mut gpu_id))?;
        nvml_try(compute(device.handle(), &mut compute_id))?;
    }
    Ok((gpu_id, compute_id))
}

/// The profile id of a GPU instance, and where it lies.
pub fn gpu_instance(device: &Device<'_>, id: u32) -> Answer<(u32, Placement)> {
    let lib = device.nvml().lib();
    let by_id = nvml_sym(lib.nvmlDeviceGetGpuInstanceById.as_ref())?;
    let get_info = nvml_sym(lib.nvmlGpuInstanceGetInfo.as_ref())?;
    // SAFETY: the first call gives the handle that the second one takes, and both structs are filled in by them.
    let info = unsafe {
        let mut instance: sys::nvmlGpuInstance_t = mem::zeroed();
        nvml_try(by_id(device.handle(), id, &mut instance))?;
        let mut info: sys::nvmlGpuInstanceInfo_t = mem::zeroed();
        nvml_try(get_info(instance, &mut info))?;
        info
    };
    Ok((info.profileId, Placement { start: info.placement.start, size: info.placement.size }))
}

/// Where GPU instances of the profile with this id (not the profile's number) may lie.
pub fn possible_placements(device: &Device<'_>, profile_id: u32) -> Answer<Vec<Placement>> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuInstancePossiblePlacements_v2.as_ref())?;
    // SAFETY: `count` tells the call how many entries the vector has, and it writes no more.
    unsafe {
        let mut found: Vec<sys::nvmlGpuInstancePlacement_t> = vec![mem::zeroed(); MOST_PLACEMENTS as usize];
        let mut count = MOST_PLACEMENTS;
        nvml_try(call(device.handle(), profile_id, found.as_mut_ptr(), &mut count))?;
        found.truncate(count as usize);
        Ok(found.into_iter().map(|placement| Placement { start: placement.start, size: placement.size }).collect())
    }
}

/// Where the driver tells what happens to cards.
pub struct EventSet {
    nvml: Arc<Nvml>,
    set: sys::nvmlEventSet_t,
}

// SAFETY: NVML may be called from any thread, and the set is this struct's alone.
unsafe impl Send for EventSet {}

impl EventSet {
    /// An empty set.
    pub fn new(nvml: Arc<Nvml>) -> Answer<Self> {
        let call = nvml_sym(nvml.lib().nvmlEventSetCreate.as_ref())?;
        // SAFETY: the call fills in the handle, which is freed on drop.
        let set = unsafe {
            let mut set: sys::nvmlEventSet_t = mem::zeroed();
            nvml_try(call(&mut set))?;
            set
        };
        Ok(Self { nvml, set })
    }

    /// Adds the XIDs of a card.
    pub fn add(&mut self, uuid: &str) -> Answer<()> {
        let device = self.nvml.device_by_uuid(uuid)?;
        let call = nvml_sym(self.nvml.lib().nvmlDeviceRegisterEvents.as_ref())?;
        // SAFETY: both handles are alive: the device's as long as the library, the set's as long as `self`.
        nvml_try(unsafe { call(device.handle(), u64::from(sys::nvmlEventTypeXidCriticalError), self.set) })
    }

    /// Waits up to `timeout_ms` for an event; `None` if there was none.
    pub fn wait(&mut self, timeout_ms: u32) -> Answer<Option<XidEvent>> {
        let call = nvml_sym(self.nvml.lib().nvmlEventSetWait_v2.as_ref())?;
        // SAFETY: the struct is plain numbers and a handle that the call fills in.
        let (code, data) = unsafe {
            let mut data: sys::nvmlEventData_t = mem::zeroed();
            (call(self.set, &mut data, timeout_ms), data)
        };
        if code == sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT {
            return Ok(None);
        }
        nvml_try(code)?;
        // SAFETY: the handle is the one that NVML has just written.
        let card = unsafe { Device::new(data.device, &self.nvml) }.uuid().ok();
        let id = |id: u32| Some(id).filter(|id| *id != NONE);
        Ok(Some(XidEvent {
            card: card.as_deref().map(GpuUuid::from),
            xid: data.eventData,
            gpu_instance: id(data.gpuInstanceId),
            compute_instance: id(data.computeInstanceId),
        }))
    }
}

impl Drop for EventSet {
    fn drop(&mut self) {
        if let Ok(call) = self.nvml.lib().nvmlEventSetFree.as_ref() {
            // SAFETY: the set is alive until here and used nowhere else.
            unsafe { call(self.set) };
        }
    }
}

/// A sample of a card's performance counters that is kept until the next one.
pub struct KeptSample {
    nvml: Arc<Nvml>,
    handle: sys::nvmlGpmSample_t,
}

// SAFETY: NVML may be called from any thread, and the sample is this struct's alone.
unsafe impl Send for KeptSample {}

impl KeptSample {
    /// Keeps `sample`, which is one of the library `nvml`.
    pub fn keep(nvml: Arc<Nvml>, sample: GpmSample<'_>) -> Self {
        Self { nvml, handle: sample.into_handle() }
    }

    /// Hands it out as the wrapper has it, with the library it belongs to.
    pub fn with<T>(&self, use_it: impl FnOnce(&Nvml, &GpmSample<'_>) -> T) -> T {
        // SAFETY: the handle is alive until `drop`, and the wrapper is kept from freeing it.
        let sample = mem::ManuallyDrop::new(unsafe { GpmSample::from_handle(&self.nvml, self.handle) });
        use_it(&self.nvml, &sample)
    }
}

impl Drop for KeptSample {
    fn drop(&mut self) {
        // SAFETY: the handle is this struct's alone, and it is not used again.
        drop(unsafe { GpmSample::from_handle(&self.nvml, self.handle) });
    }
}
