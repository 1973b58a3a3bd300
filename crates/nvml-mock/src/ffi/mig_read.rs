//! How the cards are divided, and how they could be.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    self as nvml, nvmlComputeInstance_st, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t,
    nvmlComputeInstanceProfileInfo_t, nvmlComputeInstanceProfileInfo_v2_t, nvmlComputeInstanceProfileInfo_v3_t,
    nvmlDeviceAttributes_t, nvmlGpuInstance_st, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t, nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t,
};

use super::call::exports;
use super::enumerate::{DeviceHandle, handle_of};
use super::pointer::{Handle, Pointer, field, told, version};
use crate::describe::NvmlError;
use crate::driver::{Device, Driver, Handles, Target};
use crate::machine::MigDevice;
use crate::mig::{ComputeProfile, Profile, Table};

/// What NVML calls a GPU instance.
pub(super) type GpuInstanceHandle = Handle<nvmlGpuInstance_st>;

/// What NVML calls a compute instance.
pub(super) type ComputeInstanceHandle = Handle<nvmlComputeInstance_st>;

/// How many numbers of profiles NVML knows, which is more than a card has profiles.
const PROFILE_NUMBERS: u32 = nvml::NVML_GPU_INSTANCE_PROFILE_COUNT + 1;

/// The profile with that number.
fn numbered(table: &'static Table, number: c_uint) -> Result<&'static Profile, NvmlError> {
    if number >= PROFILE_NUMBERS {
        return Err(NvmlError::InvalidArgument);
    }
    table.by_number(number).ok_or(NvmlError::NotSupported)
}

/// The profile with that id.
pub(super) fn identified(table: &'static Table, id: c_uint) -> Result<&'static Profile, NvmlError> {
    table.by_id(id).ok_or(NvmlError::InvalidArgument)
}

/// The compute profile with that number, of engines that are shared, as there are no others.
fn numbered_compute(profile: &Profile, number: c_uint, engines: c_uint) -> Result<ComputeProfile, NvmlError> {
    if number >= nvml::NVML_COMPUTE_INSTANCE_PROFILE_COUNT
        || engines != nvml::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    {
        return Err(NvmlError::InvalidArgument);
    }
    profile.compute_profile(number).ok_or(NvmlError::NotSupported)
}

/// The compute profile with that id.
pub(super) fn identified_compute(profile: &Profile, id: c_uint) -> Result<ComputeProfile, NvmlError> {
    profile.compute_profile(id).ok_or(NvmlError::InvalidArgument)
}

/// The handle of a GPU instance.
pub(super) fn instance_handle(handles: &mut Handles, card: &str, id: u32, profile: u32) -> GpuInstanceHandle {
    Handle::new(handles.of(Target::GpuInstance { card: card.to_owned(), id, profile }))
}

/// The handle of a compute instance in a GPU instance.
pub(super) fn compute_handle(
    handles: &mut Handles,
    card: &str,
    instance: u32,
    id: u32,
    profile: u32,
) -> ComputeInstanceHandle {
    Handle::new(handles.of(Target::ComputeInstance { card: card.to_owned(), instance, id, profile }))
}

/// The MIG device of a handle.
fn mig_device(driver: &Driver, device: DeviceHandle) -> Result<MigDevice<'_>, NvmlError> {
    match driver.device(device.number())? {
        Device::Mig(device) => Ok(device),
        Device::Gpu(_) => Err(NvmlError::InvalidArgument),
    }
}

fn attributes(device: MigDevice<'_>) -> nvmlDeviceAttributes_t {
    let (profile, compute) = (device.gpu_instance.profile, device.compute_instance.profile);
    let engines = profile.engines;
    nvmlDeviceAttributes_t {
        multiprocessorCount: profile.compute_multiprocessors(compute),
        sharedCopyEngineCount: engines.copy,
        sharedDecoderCount: engines.decoder,
        sharedEncoderCount: engines.encoder,
        sharedJpegCount: engines.jpeg,
        sharedOfaCount: engines.ofa,
        gpuInstanceSliceCount: profile.slices,
        computeInstanceSliceCount: compute.slices,
        memorySizeMB: profile.memory.0,
    }
}

fn profile_info(profile: &Profile) -> nvmlGpuInstanceProfileInfo_t {
    nvmlGpuInstanceProfileInfo_t {
        id: profile.id,
        isP2pSupported: 0,
        sliceCount: profile.slices,
        instanceCount: profile.instances,
        multiprocessorCount: profile.multiprocessors,
        copyEngineCount: profile.engines.copy,
        decoderCount: profile.engines.decoder,
        encoderCount: profile.engines.encoder,
        jpegCount: profile.engines.jpeg,
        ofaCount: profile.engines.ofa,
        memorySizeMB: profile.memory.0,
    }
}

fn profile_info_v2(profile: &Profile, version: u32) -> nvmlGpuInstanceProfileInfo_v2_t {
    let info = profile_info(profile);
    nvmlGpuInstanceProfileInfo_v2_t {
        version,
        id: info.id,
        isP2pSupported: info.isP2pSupported,
        sliceCount: info.sliceCount,
        instanceCount: info.instanceCount,
        multiprocessorCount: info.multiprocessorCount,
        copyEngineCount: info.copyEngineCount,
        decoderCount: info.decoderCount,
        encoderCount: info.encoderCount,
        jpegCount: info.jpegCount,
        ofaCount: info.ofaCount,
        memorySizeMB: info.memorySizeMB,
        name: field(&format!("MIG {}", profile.name)),
    }
}

fn profile_info_v3(profile: &Profile, version: u32) -> nvmlGpuInstanceProfileInfo_v3_t {
    let info = profile_info(profile);
    let graphics = if profile.name.ends_with("+gfx") { nvml::NVML_GPU_INSTANCE_PROFILE_CAPS_GFX } else { 0 };
    nvmlGpuInstanceProfileInfo_v3_t {
        version,
        id: info.id,
        sliceCount: info.sliceCount,
        instanceCount: info.instanceCount,
        multiprocessorCount: info.multiprocessorCount,
        copyEngineCount: info.copyEngineCount,
        decoderCount: info.decoderCount,
        encoderCount: info.encoderCount,
        jpegCount: info.jpegCount,
        ofaCount: info.ofaCount,
        memorySizeMB: info.memorySizeMB,
        name: field(&format!("MIG {}", profile.name)),
        capabilities: graphics,
    }
}

fn compute_profile_info(profile: &Profile, compute: ComputeProfile) -> nvmlComputeInstanceProfileInfo_t {
    let engines = profile.engines;
    nvmlComputeInstanceProfileInfo_t {
        id: compute.id,
        sliceCount: compute.slices,
        instanceCount: u32::try_from(compute.starts(profile.slices).count()).expect("there are few slices"),
        multiprocessorCount: profile.compute_multiprocessors(compute),
        sharedCopyEngineCount: engines.copy,
        sharedDecoderCount: engines.decoder,
        sharedEncoderCount: engines.encoder,
        sharedJpegCount: engines.jpeg,
        sharedOfaCount: engines.ofa,
    }
}

fn compute_profile_name(profile: &Profile, compute: ComputeProfile) -> String {
    match compute.slices == profile.slices {
        true => format!("MIG {}", profile.name),
        false => format!("MIG {}c.{}", compute.slices, profile.name),
    }
}

fn compute_profile_info_v2(
    profile: &Profile,
    compute: ComputeProfile,
    version: u32,
) -> nvmlComputeInstanceProfileInfo_v2_t {
    let info = compute_profile_info(profile, compute);
    nvmlComputeInstanceProfileInfo_v2_t {
        version,
        id: info.id,
        sliceCount: info.sliceCount,
        instanceCount: info.instanceCount,
        multiprocessorCount: info.multiprocessorCount,
        sharedCopyEngineCount: info.sharedCopyEngineCount,
        sharedDecoderCount: info.sharedDecoderCount,
        sharedEncoderCount: info.sharedEncoderCount,
        sharedJpegCount: info.sharedJpegCount,
        sharedOfaCount: info.sharedOfaCount,
        name: field(&compute_profile_name(profile, compute)),
    }
}

fn compute_profile_info_v3(
    profile: &Profile,
    compute: ComputeProfile,
    version: u32,
) -> nvmlComputeInstanceProfileInfo_v3_t {
    let info = compute_profile_info(profile, compute);
    nvmlComputeInstanceProfileInfo_v3_t {
        version,
        id: info.id,
        sliceCount: info.sliceCount,
        instanceCount: info.instanceCount,
        multiprocessorCount: info.multiprocessorCount,
        sharedCopyEngineCount: info.sharedCopyEngineCount,
        sharedDecoderCount: info.sharedDecoderCount,
        sharedEncoderCount: info.sharedEncoderCount,
        sharedJpegCount: info.sharedJpegCount,
        sharedOfaCount: info.sharedOfaCount,
        name: field(&compute_profile_name(profile, compute)),
        capabilities: 0,
    }
}

exports! {
    fn nvmlDeviceGetMigMode(device: DeviceHandle, current: Pointer<c_uint>, pending: Pointer<c_uint>) => |driver| {
        pending.check()?;
        let (card, _) = driver.divisible(device.number())?;
        current.set(card.mig.enabled.into())?;
        pending.set(card.mig.pending.into())
    };

    fn nvmlDeviceGetMaxMigDeviceCount(device: DeviceHandle, count: Pointer<c_uint>) => |driver| {
        let card = driver.gpu(device.number())?;
        count.set(card.model.mig.filter(|_| card.mig.enabled).map_or(0, Table::most_devices))
    };

    fn nvmlDeviceGetMigDeviceHandleByIndex(
        device: DeviceHandle,
        index: c_uint,
        mig: Pointer<DeviceHandle>,
    ) => |driver| {
        mig.check()?;
        let (card, table) = driver.divisible(device.number())?;
        if index >= table.most_devices() {
            return Err(NvmlError::InvalidArgument);
        }
        let found = card.mig_devices().nth(index as usize).ok_or(NvmlError::NotFound)?;
        let target = Target::Mig { card: card.uuid.clone(), uuid: found.uuid() };
        mig.set(Handle::new(driver.handles.of(target)))
    };

    fn nvmlDeviceIsMigDeviceHandle(device: DeviceHandle, is: Pointer<c_uint>) => |driver| {
        is.set(matches!(driver.device(device.number())?, Device::Mig(_)).into())
    };

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: DeviceHandle, device: Pointer<DeviceHandle>) => |driver| {
        device.check()?;
        let card = mig_device(driver, mig)?.card.uuid.clone();
        device.set(handle_of(driver, card))
    };

    fn nvmlDeviceGetGpuInstanceId(device: DeviceHandle, id: Pointer<c_uint>) => |driver| {
        id.set(mig_device(driver, device)?.gpu_instance.id)
    };

    fn nvmlDeviceGetComputeInstanceId(device: DeviceHandle, id: Pointer<c_uint>) => |driver| {
        id.set(mig_device(driver, device)?.compute_instance.id)
    };

    fn nvmlDeviceGetAttributes_v2(device: DeviceHandle, found: Pointer<nvmlDeviceAttributes_t>) => |driver| {
        match driver.device(device.number())? {
            Device::Mig(device) => found.set(attributes(device)),
            Device::Gpu(_) => Err(NvmlError::NotSupported),
        }
    };

    fn nvmlDeviceGetGpuInstanceProfileInfo(
        device: DeviceHandle,
        profile: c_uint,
        info: Pointer<nvmlGpuInstanceProfileInfo_t>,
    ) => |driver| {
        let (_, table) = driver.divisible(device.number())?;
        info.set(profile_info(numbered(table, profile)?))
    };

    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        device: DeviceHandle,
        profile: c_uint,
        info: Pointer<nvmlGpuInstanceProfileInfo_v2_t>,
    ) => |driver| {
        let (_, table) = driver.divisible(device.number())?;
        let edition = info.cast::<c_uint>().get()?;
        let profile = numbered(table, profile)?;
        if edition == version::<nvmlGpuInstanceProfileInfo_v2_t>(2) {
            info.set(profile_info_v2(profile, edition))
        } else if edition == version::<nvmlGpuInstanceProfileInfo_v3_t>(3) {
            info.cast().set(profile_info_v3(profile, edition))
        } else {
            Err(NvmlError::ArgumentVersionMismatch)
        }
    };

    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        device: DeviceHandle,
        profile: c_uint,
        placements: Pointer<nvmlGpuInstancePlacement_t>,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (_, table) = driver.divisible(device.number())?;
        let profile = identified(table, profile)?;
        let placement = |start: &u32| nvmlGpuInstancePlacement_t { start: *start, size: profile.size };
        told(count, placements, &profile.starts.iter().map(placement).collect::<Vec<_>>())
    };

    fn nvmlDeviceGetGpuInstanceRemainingCapacity(
        device: DeviceHandle,
        profile: c_uint,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (card, table) = driver.divided(device.number())?;
        count.set(card.instances.remaining(identified(table, profile)?))
    };

    fn nvmlDeviceGetGpuInstances(
        device: DeviceHandle,
        profile: c_uint,
        instances: Pointer<GpuInstanceHandle>,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (card, table) = driver.divided(device.number())?;
        let profile = identified(table, profile)?;
        let ids: Vec<_> =
            card.instances.iter().filter(|each| each.profile.id == profile.id).map(|each| each.id).collect();
        let card = card.uuid.clone();
        let found: Vec<_> =
            ids.into_iter().map(|id| instance_handle(&mut driver.handles, &card, id, profile.id)).collect();
        told(count, instances, &found)
    };

    fn nvmlDeviceGetGpuInstanceById(
        device: DeviceHandle,
        id: c_uint,
        instance: Pointer<GpuInstanceHandle>,
    ) => |driver| {
        instance.check()?;
        let (card, _) = driver.divided(device.number())?;
        let found = card.instances.get(id).ok_or(NvmlError::NotFound)?;
        let (card, profile) = (card.uuid.clone(), found.profile.id);
        instance.set(instance_handle(&mut driver.handles, &card, id, profile))
    };

    fn nvmlGpuInstanceGetInfo(instance: GpuInstanceHandle, info: Pointer<nvmlGpuInstanceInfo_t>) => |driver| {
        info.check()?;
        let (card, found) = driver.gpu_instance(instance.number())?;
        let placement = nvmlGpuInstancePlacement_t { start: found.start, size: found.profile.size };
        let (card, id, profile) = (card.uuid.clone(), found.id, found.profile.id);
        let device = handle_of(driver, card).raw();
        info.set(nvmlGpuInstanceInfo_t { device, id, profileId: profile, placement })
    };

    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance: GpuInstanceHandle,
        profile: c_uint,
        engines: c_uint,
        info: Pointer<nvmlComputeInstanceProfileInfo_t>,
    ) => |driver| {
        let (_, instance) = driver.gpu_instance(instance.number())?;
        let compute = numbered_compute(instance.profile, profile, engines)?;
        info.set(compute_profile_info(instance.profile, compute))
    };

    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        instance: GpuInstanceHandle,
        profile: c_uint,
        engines: c_uint,
        info: Pointer<nvmlComputeInstanceProfileInfo_v2_t>,
    ) => |driver| {
        let (_, instance) = driver.gpu_instance(instance.number())?;
        let edition = info.cast::<c_uint>().get()?;
        let compute = numbered_compute(instance.profile, profile, engines)?;
        if edition == version::<nvmlComputeInstanceProfileInfo_v2_t>(2) {
            info.set(compute_profile_info_v2(instance.profile, compute, edition))
        } else if edition == version::<nvmlComputeInstanceProfileInfo_v3_t>(3) {
            info.cast().set(compute_profile_info_v3(instance.profile, compute, edition))
        } else {
            Err(NvmlError::ArgumentVersionMismatch)
        }
    };

    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        instance: GpuInstanceHandle,
        profile: c_uint,
        placements: Pointer<nvmlComputeInstancePlacement_t>,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (_, instance) = driver.gpu_instance(instance.number())?;
        let compute = identified_compute(instance.profile, profile)?;
        let placement = |start| nvmlComputeInstancePlacement_t { start, size: compute.slices };
        told(count, placements, &compute.starts(instance.profile.slices).map(placement).collect::<Vec<_>>())
    };

    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        instance: GpuInstanceHandle,
        profile: c_uint,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (_, instance) = driver.gpu_instance(instance.number())?;
        count.set(instance.remaining(identified_compute(instance.profile, profile)?))
    };

    fn nvmlGpuInstanceGetComputeInstances(
        instance: GpuInstanceHandle,
        profile: c_uint,
        computes: Pointer<ComputeInstanceHandle>,
        count: Pointer<c_uint>,
    ) => |driver| {
        let (card, instance) = driver.gpu_instance(instance.number())?;
        let compute = identified_compute(instance.profile, profile)?;
        let (card, instance, ids): (_, _, Vec<_>) = (
            card.uuid.clone(),
            instance.id,
            instance.compute.iter().filter(|each| each.profile == compute).map(|each| each.id).collect(),
        );
        let found: Vec<_> = ids
            .into_iter()
            .map(|id| compute_handle(&mut driver.handles, &card, instance, id, compute.id))
            .collect();
        told(count, computes, &found)
    };

    fn nvmlGpuInstanceGetComputeInstanceById(
        instance: GpuInstanceHandle,
        id: c_uint,
        compute: Pointer<ComputeInstanceHandle>,
    ) => |driver| {
        compute.check()?;
        let (card, instance) = driver.gpu_instance(instance.number())?;
        let found = instance.compute.iter().find(|each| each.id == id).ok_or(NvmlError::NotFound)?;
        let (card, instance, profile) = (card.uuid.clone(), instance.id, found.profile.id);
        compute.set(compute_handle(&mut driver.handles, &card, instance, id, profile))
    };

    fn nvmlComputeInstanceGetInfo_v2(
        compute: ComputeInstanceHandle,
        info: Pointer<nvmlComputeInstanceInfo_t>,
    ) => |driver| {
        info.check()?;
        let (card, instance, found) = driver.compute_instance(compute.number())?;
        let (card, instance, profile) = (card.uuid.clone(), instance.id, instance.profile.id);
        let found = *found;
        let gpu_instance = instance_handle(&mut driver.handles, &card, instance, profile).raw();
        let device = handle_of(driver, card).raw();
        info.set(nvmlComputeInstanceInfo_t {
            device,
            gpuInstance: gpu_instance,
            id: found.id,
            profileId: found.profile.id,
            placement: nvmlComputeInstancePlacement_t { start: found.start, size: found.profile.slices },
        })
    };
}
