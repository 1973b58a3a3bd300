//! Reads what a node has.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_engine::model::Mib;
use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{cuda_driver_version_major, cuda_driver_version_minor};

use super::fault::{Calls, CardFault, Failures, driver_is_gone};
use super::library::Library;
use super::links::{links, places};
use super::profile::{self, GpuInstanceProfile, Size};
use super::raw;
use crate::inventory::{
    Card, CardIndex, ComputeCapability, GpuUuid, Inventory, Mig, MigDevice, MigUuid, Minor, PciBusId, Placement,
};

/// What was found at one look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// The cards. One that did not answer is as it was before, if it was there before.
    pub inventory: Inventory,
    /// Cards that did not answer.
    pub faults: BTreeMap<GpuUuid, CardFault>,
    /// Their NVLink fabric, if all that have one are in the same: cluster UUID and clique.
    pub fabric: Option<([u8; 16], u32)>,
    /// Whether a card is a part of one that a hypervisor divides.
    pub vgpu: bool,
}

/// What may change from one look to the next, and is cheap to ask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint(Vec<(Option<String>, Option<u32>, Vec<String>)>);

/// The driver does not answer at all: the library has to be opened again.
#[derive(Debug, thiserror::Error)]
#[error("the NVIDIA driver does not answer ({0}); it is tried again")]
pub struct DriverGone(NvmlError);

/// Which cards there are, whether they are partitioned, and how: changed if it is not equal to the last one.
///
/// # Errors
/// [`DriverGone`] if not even the number of cards can be had.
pub fn fingerprint(library: &Library) -> Result<Fingerprint, DriverGone> {
    let nvml = library.nvml();
    let count = nvml.device_count().map_err(DriverGone)?;
    let card = |index| {
        let Ok(device) = nvml.device_by_index(index) else { return (None, None, Vec::new()) };
        let mode = device.mig_mode().ok().map(|mode| mode.current);
        let parts = if mode == Some(1) { mig_uuids(&device) } else { Vec::new() };
        (device.uuid().ok(), mode, parts)
    };
    Ok(Fingerprint((0..count).map(card).collect()))
}

fn mig_uuids(device: &Device<'_>) -> Vec<String> {
    let count = device.mig_device_count().unwrap_or(0);
    (0..count).filter_map(|index| device.mig_device_by_index(index).ok()?.uuid().ok()).collect()
}

/// Reads it all. `before` is what was found at the last look.
///
/// # Errors
/// [`DriverGone`] if not even the number of cards can be had.
pub fn read(library: &Library, before: &Inventory, failures: &mut Failures) -> Result<Reading, DriverGone> {
    let nvml = library.nvml();
    let count = nvml.device_count().map_err(DriverGone)?;
    let mut reading = Reading::default();
    reading.inventory.driver_version = nvml.sys_driver_version().unwrap_or_default();
    reading.inventory.cuda_version = nvml.sys_cuda_driver_version().ok().and_then(|version| {
        let part = |number: i32| u32::try_from(number).ok();
        Some((part(cuda_driver_version_major(version))?, part(cuda_driver_version_minor(version))?))
    });
    let mut silent = Vec::new();
    for index in (0..count).map(CardIndex) {
        match identify(library, index) {
            Ok((device, card)) => read_card(&device, card, &mut reading, failures),
            Err(Silent { uuid, error }) if !driver_is_gone(&error) => silent.push((index, uuid, error)),
            Err(Silent { error, .. }) => return Err(DriverGone(error)),
        }
    }
    for (index, uuid, error) in silent {
        keep(before, index, uuid, &error, &mut reading);
    }
    reading.inventory.cards.sort_by_key(|card| card.index);
    read_links(library, before, &mut reading, failures);
    Ok(reading)
}

/// A card that does not say what it is.
struct Silent {
    uuid: Option<GpuUuid>,
    error: NvmlError,
}

/// What a card must say to be one. The rest is read after it.
fn identify(library: &Library, index: CardIndex) -> Result<(Device<'_>, Card), Silent> {
    let nameless = |error| Silent { uuid: None, error };
    let device = library.nvml().device_by_index(index.0).map_err(nameless)?;
    let uuid = GpuUuid::from(device.uuid().map_err(nameless)?.as_str());
    let named = |error| Silent { uuid: Some(uuid.clone()), error };
    let name = device.name().map_err(named)?;
    let minor = Minor(device.minor_number().map_err(named)?);
    let pci = PciBusId::from(device.pci_info().map_err(named)?.bus_id.as_str());
    let capability = device.cuda_compute_capability().map_err(named)?;
    let part = |number: i32| u32::try_from(number).unwrap_or_default();
    let capability = ComputeCapability { major: part(capability.major), minor: part(capability.minor) };
    let memory = total_memory(&device).map_err(named)?;
    let (links, mig, numa_node) = (Vec::new(), Mig::Incapable, None);
    Ok((device, Card { index, uuid, name, minor, pci, numa_node, memory, capability, links, mig }))
}

/// Memory of a card or MIG device.
pub(super) fn total_memory(device: &Device<'_>) -> Result<Mib, NvmlError> {
    let bytes = match device.memory_info() {
        Ok(memory) => memory.total,
        Err(error) if super::fault::is_unsupported(&error) => raw::memory_v1(device)?.total,
        Err(error) => return Err(error),
    };
    Ok(Mib(bytes >> 20))
}

fn read_card(device: &Device<'_>, mut card: Card, reading: &mut Reading, failures: &mut Failures) {
    let uuid = card.uuid.clone();
    let mut calls = Calls::of(&uuid, failures);
    card.mig = match calls.value("nvmlDeviceGetMigMode", || device.mig_mode()) {
        None => Mig::Incapable,
        Some(mode) if mode.current == 0 => Mig::Disabled,
        Some(_) => Mig::Enabled(mig_devices(device, card.memory, &mut calls)),
    };
    if let Some(fabric) = calls.value("nvmlDeviceGetGpuFabricInfo", || raw::fabric(device)).flatten() {
        // Cards of one node that are in two fabrics are in none that could be named.
        let first = reading.inventory.cards.is_empty() || reading.fabric == Some(fabric);
        reading.fabric = Some(fabric).filter(|_| first);
    }
    let mode = calls.value("nvmlDeviceGetVirtualizationMode", || device.virtualization_mode());
    reading.vgpu |= mode == Some(nvml_wrapper::enum_wrappers::device::GpuVirtualizationMode::Vgpu);
    if let Some(fault) = calls.fault() {
        reading.faults.insert(uuid, fault);
    }
    reading.inventory.cards.push(card);
}

/// Keeps a silent card as it was: by its UUID, or if it does not even say that, by its index.
fn keep(before: &Inventory, index: CardIndex, uuid: Option<GpuUuid>, error: &NvmlError, reading: &mut Reading) {
    let answered: BTreeSet<&GpuUuid> = reading.inventory.cards.iter().map(|card| &card.uuid).collect();
    let known = match &uuid {
        Some(uuid) => before.card(uuid),
        None => before.cards.iter().find(|card| card.index == index && !answered.contains(&card.uuid)),
    };
    let fault = CardFault::of(error).unwrap_or(CardFault::Lost);
    let Some(known) = known else {
        tracing::warn!(index = index.0, %error, "a card does not say what it is, and is left out until it does");
        return;
    };
    reading.faults.insert(known.uuid.clone(), fault);
    reading.inventory.cards.push(Card { index, ..known.clone() });
}

fn read_links(library: &Library, before: &Inventory, reading: &mut Reading, failures: &mut Failures) {
    let cards = places(reading.inventory.cards.iter().map(|card| (&card.pci, &card.uuid)));
    for card in &mut reading.inventory.cards {
        let Ok(device) = library.nvml().device_by_index(card.index.0) else { continue };
        if reading.faults.contains_key(&card.uuid) {
            continue;
        }
        let mut calls = Calls::of(&card.uuid, failures);
        card.links = links(&device, &mut calls, &cards);
        if let Some(fault) = calls.fault() {
            card.links = before.card(&card.uuid).map(|known| known.links.clone()).unwrap_or_default();
            reading.faults.insert(card.uuid.clone(), fault);
        }
    }
}

fn mig_devices(card: &Device<'_>, memory: Mib, calls: &mut Calls<'_>) -> Vec<MigDevice> {
    let count = calls.value("nvmlDeviceGetMaxMigDeviceCount", || card.mig_device_count()).unwrap_or(0);
    let mut profiles = None;
    let mut devices = Vec::new();
    for index in 0..count {
        let handle = calls.value("nvmlDeviceGetMigDeviceHandleByIndex", || match card.mig_device_by_index(index) {
            // Indices of parts that are not made yet.
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => Ok(None),
            other => other.map(Some),
        });
        let Some(part) = handle.flatten() else { continue };
        let profiles = profiles.get_or_insert_with(|| profiles_of(card));
        devices.extend(mig_device(card, &part, index, memory, profiles, calls));
    }
    devices
}

/// The profiles of GPU instances that the card has.
fn profiles_of(card: &Device<'_>) -> Vec<GpuInstanceProfile> {
    let of = |number| Some(GpuInstanceProfile { number, id: card.profile_info(number).ok()?.id });
    (0..profile::NUMBERS).filter_map(of).collect()
}

fn mig_device(
    card: &Device<'_>,
    part: &Device<'_>,
    index: u32,
    card_memory: Mib,
    profiles: &[GpuInstanceProfile],
    calls: &mut Calls<'_>,
) -> Option<MigDevice> {
    let uuid = calls.value("nvmlDeviceGetUUID", || part.uuid())?;
    let (gpu_instance, compute_instance) = calls.value("nvmlDeviceGetGpuInstanceId", || raw::instance_ids(part))?;
    let (profile_id, placement): (u32, Placement) =
        calls.value("nvmlGpuInstanceGetInfo", || raw::gpu_instance(card, gpu_instance))?;
    let attributes = calls.value("nvmlDeviceGetAttributes_v2", || part.attributes())?;
    let number = profiles.iter().find(|profile| profile.id == profile_id).map_or(0, |profile| profile.number);
    let size = Size {
        gpu_slices: attributes.gpu_instance_slice_count,
        compute_slices: attributes.compute_instance_slice_count,
        memory_mib: attributes.memory_size_mb,
        card_bytes: card_memory.0 << 20,
    };
    Some(MigDevice {
        index,
        uuid: MigUuid::from(uuid.as_str()),
        profile: profile::name(number, size),
        gpu_instance,
        compute_instance,
        placement,
        memory: Mib(attributes.memory_size_mb),
        multiprocessors: attributes.multiprocessor_count,
        slices: (size.gpu_slices, size.compute_slices),
        engines: [
            attributes.shared_copy_engine_count,
            attributes.shared_decoder_count,
            attributes.shared_encoder_count,
            attributes.shared_jpeg_count,
            attributes.shared_ofa_count,
        ],
    })
}
