//! Reads how a card is cut, and cuts it.

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper_sys::bindings as sys;

use super::call::{CallError, named, optional};
use super::division::{ComputeInstance, Division, GpuInstance, InstanceProfile, MigMode, ProfileId};
use super::inventory::total_memory;
use super::library::Library;
use super::mig_raw::{self, GpuHandle};
use super::profile::{self, Size};
use super::raw::{self, ProcessList};
use crate::inventory::{CardIndex, GpuUuid, MigUuid, Placement};

const BY_ID: &str = "nvmlDeviceGetGpuInstanceById";
const GPU_INFO: &str = "nvmlGpuInstanceGetInfo";
const COMPUTE_PROFILE: &str = "nvmlGpuInstanceGetComputeInstanceProfileInfo";

/// One card, to be cut.
pub struct Partitioner<'a> {
    uuid: GpuUuid,
    device: Device<'a>,
}

impl<'a> Partitioner<'a> {
    /// All cards of the node, with their indices.
    ///
    /// # Errors
    /// The call that failed.
    pub fn all(library: &'a Library) -> Result<Vec<(CardIndex, Self)>, CallError> {
        let nvml = library.nvml();
        let count = named("nvmlDeviceGetCount_v2", || nvml.device_count())?;
        let card = |index| {
            let device = named("nvmlDeviceGetHandleByIndex_v2", || nvml.device_by_index(index))?;
            let uuid = named("nvmlDeviceGetUUID", || device.uuid())?;
            Ok((CardIndex(index), Self { uuid: GpuUuid::from(uuid.as_str()), device }))
        };
        (0..count).map(card).collect()
    }

    /// Which card it is.
    pub fn uuid(&self) -> &GpuUuid {
        &self.uuid
    }

    /// What kind of card it is: device and vendor on the bus, as NVML has them in one number, `0x233010DE`.
    ///
    /// # Errors
    /// The call that failed.
    pub fn pci_device(&self) -> Result<u32, CallError> {
        Ok(named("nvmlDeviceGetPciInfo_v3", || self.device.pci_info())?.pci_device_id)
    }

    /// The mode; `None` if the card has none.
    ///
    /// # Errors
    /// The call that failed.
    pub fn mode(&self) -> Result<Option<MigMode>, CallError> {
        let mode = optional(named("nvmlDeviceGetMigMode", || self.device.mig_mode()))?;
        Ok(mode.map(|mode| MigMode { current: mode.current != 0, pending: mode.pending != 0 }))
    }

    /// How it is cut, and how it could be; `None` if it cannot be cut at all.
    ///
    /// # Errors
    /// The call that failed.
    pub fn division(&self) -> Result<Option<Division>, CallError> {
        let Some(mode) = self.mode()? else { return Ok(None) };
        let profiles = self.profiles(mode)?;
        let mut instances = Vec::new();
        if mode.current {
            for profile in &profiles {
                let list = || mig_raw::gpu_instances(&self.device, profile.id.0);
                for handle in named("nvmlDeviceGetGpuInstances", list)? {
                    instances.push(gpu_instance(handle)?);
                }
            }
        }
        instances.sort_by_key(|instance| instance.placement.start);
        Ok(Some(Division { mode, profiles, instances }))
    }

    fn profiles(&self, mode: MigMode) -> Result<Vec<InstanceProfile>, CallError> {
        let card = named("nvmlDeviceGetMemoryInfo", || total_memory(&self.device))?;
        let mut profiles: Vec<InstanceProfile> = Vec::new();
        for number in 0..profile::NUMBERS {
            let info = named("nvmlDeviceGetGpuInstanceProfileInfo", || match self.device.profile_info(number) {
                // Numbers that a driver is too old for.
                Err(NvmlError::InvalidArg) => Err(NvmlError::NotSupported),
                other => other,
            });
            let Some(info) = optional(info)? else { continue };
            let list = || raw::possible_placements(&self.device, info.id);
            let placements = match optional(named("nvmlDeviceGetGpuInstancePossiblePlacements_v2", list))? {
                Some(placements) => placements,
                // Older drivers tell only what the card may become once it is in the mode.
                None if !mode.current => return Ok(Vec::new()),
                None => continue,
            };
            let size = Size {
                gpu_slices: info.slice_count,
                compute_slices: info.slice_count,
                memory_mib: info.memory_size_mb,
                card_bytes: card.0 << 20,
            };
            let name = profile::name(number, size);
            profiles.push(InstanceProfile { id: ProfileId(info.id), name, slices: info.slice_count, placements });
        }
        Ok(profiles)
    }

    /// The MIG devices on it.
    ///
    /// # Errors
    /// The call that failed.
    pub fn mig_devices(&self) -> Result<Vec<MigUuid>, CallError> {
        let count = optional(named("nvmlDeviceGetMaxMigDeviceCount", || self.device.mig_device_count()))?.unwrap_or(0);
        let mut found = Vec::new();
        for index in 0..count {
            let handle =
                named("nvmlDeviceGetMigDeviceHandleByIndex", || match self.device.mig_device_by_index(index) {
                    Err(NvmlError::NotFound | NvmlError::InvalidArg) => Ok(None),
                    other => other.map(Some),
                });
            let Some(device) = handle? else { continue };
            found.push(MigUuid::from(named("nvmlDeviceGetUUID", || device.uuid())?.as_str()));
        }
        Ok(found)
    }

    /// The processes on it, however they use it.
    ///
    /// # Errors
    /// The call that failed: then nobody knows whether the card is idle.
    pub fn processes(&self) -> Result<Vec<u32>, CallError> {
        let mut pids = Vec::new();
        for (list, call) in ProcessList::ALL {
            let found = named(call, || raw::processes(&self.device, list));
            let found = if list == ProcessList::Compute { found? } else { optional(found)?.unwrap_or_default() };
            pids.extend(found.into_iter().map(|process| process.pid));
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Asks for the mode. Whether the card is in it then is for [`Self::mode`] to say; what the driver said of it, if it
    /// is not, comes back.
    ///
    /// # Errors
    /// The call that failed.
    pub fn set_mode(&self, enabled: bool) -> Result<Option<NvmlError>, CallError> {
        let status = named("nvmlDeviceSetMigMode", || self.device.set_mig_mode(enabled))?;
        Ok(nvml_try(status).err())
    }

    /// Makes a GPU instance; its number.
    ///
    /// # Errors
    /// The call that failed. Where it was not the first, the instance is there.
    pub fn create(&self, profile: ProfileId, placement: Placement) -> Result<u32, CallError> {
        let make = || mig_raw::create_gpu_instance(&self.device, profile.0, placement);
        let made = named("nvmlDeviceCreateGpuInstanceWithPlacement", make)?;
        Ok(named(GPU_INFO, || made.info())?.0)
    }

    /// Takes a GPU instance away that is not cut any more.
    ///
    /// # Errors
    /// The call that failed.
    pub fn destroy(&self, gpu: u32) -> Result<(), CallError> {
        let handle = self.handle(gpu)?;
        named("nvmlGpuInstanceDestroy", || handle.destroy())
    }

    /// Where a compute instance of so many slices may lie in an empty GPU instance. `None` if the driver does not tell.
    ///
    /// # Errors
    /// The call that failed.
    pub fn compute_placements(&self, gpu: u32, slices: u32) -> Result<Option<Vec<Placement>>, CallError> {
        let handle = self.handle(gpu)?;
        let profile = compute_profile(handle, slices)?;
        let list = || handle.compute_placements(profile);
        optional(named("nvmlGpuInstanceGetComputeInstancePossiblePlacements", list))
    }

    /// Cuts a compute instance of so many slices out of a GPU instance, at this place or where the driver likes.
    ///
    /// # Errors
    /// The call that failed.
    pub fn create_compute(&self, gpu: u32, slices: u32, placement: Option<Placement>) -> Result<(), CallError> {
        let handle = self.handle(gpu)?;
        let profile = compute_profile(handle, slices)?;
        match placement {
            None => named("nvmlGpuInstanceCreateComputeInstance", || handle.create_compute_instance(profile)),
            Some(placement) => named("nvmlGpuInstanceCreateComputeInstanceWithPlacement", || {
                handle.create_compute_instance_at(profile, placement)
            }),
        }
    }

    /// Takes a compute instance away.
    ///
    /// # Errors
    /// The call that failed.
    pub fn destroy_compute(&self, gpu: u32, compute: u32) -> Result<(), CallError> {
        let handle = self.handle(gpu)?;
        let compute = named("nvmlGpuInstanceGetComputeInstanceById", || handle.compute_instance(compute))?;
        named("nvmlComputeInstanceDestroy", || compute.destroy())
    }

    fn handle(&self, gpu: u32) -> Result<GpuHandle<'_>, CallError> {
        named(BY_ID, || mig_raw::gpu_instance(&self.device, gpu))
    }
}

fn gpu_instance(handle: GpuHandle<'_>) -> Result<GpuInstance, CallError> {
    let (id, profile, placement) = named(GPU_INFO, || handle.info())?;
    let mut compute: Vec<ComputeInstance> = Vec::new();
    for (profile_id, slices) in compute_profiles(handle)? {
        let listed = named("nvmlGpuInstanceGetComputeInstances", || handle.compute_instances(profile_id));
        for part in optional(listed)?.unwrap_or_default() {
            let (id, _, placement) = named("nvmlComputeInstanceGetInfo_v2", || part.info())?;
            // Two numbers may lead to the same profile.
            if compute.iter().all(|known| known.id != id) {
                compute.push(ComputeInstance { id, slices, placement });
            }
        }
    }
    compute.sort_by_key(|part| part.id);
    Ok(GpuInstance { id, profile: ProfileId(profile), placement, compute })
}

/// Id and slices of the ways to cut a GPU instance.
fn compute_profiles(handle: GpuHandle<'_>) -> Result<Vec<(u32, u32)>, CallError> {
    let mut found = Vec::new();
    for number in 0..sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT {
        let info = named(COMPUTE_PROFILE, || match handle.compute_profile(number) {
            Err(NvmlError::InvalidArg) => Err(NvmlError::NotSupported),
            other => other,
        });
        found.extend(optional(info)?);
    }
    Ok(found)
}

fn compute_profile(handle: GpuHandle<'_>, slices: u32) -> Result<u32, CallError> {
    let known = compute_profiles(handle)?.into_iter().find(|(_, have)| *have == slices);
    known.map(|(id, _)| id).ok_or(CallError { call: COMPUTE_PROFILE, error: NvmlError::NotFound })
}
