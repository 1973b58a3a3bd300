//! Which cards there are, and what they are.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_st, nvmlPciInfo_t};

use super::call::exports;
use super::pointer::{Handle, Pointer, Words, field, text};
use crate::describe::{BusId, NvmlError};
use crate::driver::{Device, Driver, Target};
use crate::machine::Card;

/// What NVML calls a device.
pub(super) type DeviceHandle = Handle<nvmlDevice_st>;

/// The handle of a card.
pub(super) fn handle_of(driver: &mut Driver, card: String) -> DeviceHandle {
    Handle::new(driver.handles.of(Target::Gpu { card }))
}

/// A card's place on the bus as NVML tells it.
pub(super) fn pci(card: &Card) -> nvmlPciInfo_t {
    let device = card.gpu.pci.device_id.unwrap_or(card.model.pci);
    place(card.bus, device, card.gpu.pci.subsystem_id.unwrap_or(card.model.subsystem))
}

/// A place on the bus as NVML tells it.
pub(super) fn place(bus: BusId, device: u32, subsystem: u32) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: field(&bus.legacy()),
        domain: bus.domain,
        bus: bus.bus.into(),
        device: bus.device.into(),
        pciDeviceId: device,
        pciSubSystemId: subsystem,
        busId: field(&bus.long()),
    }
}

exports! {
    fn nvmlDeviceGetCount_v2(count: Pointer<c_uint>) => |driver| {
        count.set(driver.machine()?.cards.len().try_into().map_err(|_| NvmlError::Unknown)?)
    };

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Pointer<DeviceHandle>) => |driver| {
        device.check()?;
        let card = driver.machine()?.cards.get(index as usize).ok_or(NvmlError::InvalidArgument)?;
        let uuid = driver.answering(card)?.uuid.clone();
        device.set(handle_of(driver, uuid))
    };

    fn nvmlDeviceGetHandleByUUID(uuid: Words, device: Pointer<DeviceHandle>) => |driver| {
        device.check()?;
        let uuid = uuid.get()?;
        let machine = driver.machine()?;
        let target = if let Some(card) = machine.card(uuid) {
            Target::Gpu { card: driver.answering(card)?.uuid.clone() }
        } else {
            let mut devices = machine.cards.iter().flat_map(Card::mig_devices);
            let found = devices.find(|device| device.uuid().eq_ignore_ascii_case(uuid)).ok_or(NvmlError::NotFound)?;
            Target::Mig { card: driver.answering(found.card)?.uuid.clone(), uuid: found.uuid() }
        };
        device.set(Handle::new(driver.handles.of(target)))
    };

    fn nvmlDeviceGetHandleByPciBusId_v2(bus: Words, device: Pointer<DeviceHandle>) => |driver| {
        device.check()?;
        let bus: BusId = bus.get()?.parse().map_err(|_| NvmlError::InvalidArgument)?;
        let card = driver.machine()?.cards.iter().find(|card| card.bus == bus).ok_or(NvmlError::NotFound)?;
        let uuid = driver.answering(card)?.uuid.clone();
        device.set(handle_of(driver, uuid))
    };

    fn nvmlDeviceGetIndex(device: DeviceHandle, index: Pointer<c_uint>) => |driver| {
        index.set(match driver.device(device.number())? {
            Device::Gpu(card) => card.index,
            Device::Mig(mig) => {
                let place = mig.card.mig_devices().position(|other| other.uuid() == mig.uuid());
                place.and_then(|place| place.try_into().ok()).ok_or(NvmlError::Unknown)?
            }
        })
    };

    fn nvmlDeviceGetUUID(device: DeviceHandle, uuid: Pointer<c_char>, length: c_uint) => |driver| {
        match driver.device(device.number())? {
            Device::Gpu(card) => text(uuid, length, &card.uuid),
            Device::Mig(mig) => text(uuid, length, &mig.uuid()),
        }
    };

    fn nvmlDeviceGetName(device: DeviceHandle, name: Pointer<c_char>, length: c_uint) => |driver| {
        match driver.device(device.number())? {
            Device::Gpu(card) => text(name, length, &card.name),
            Device::Mig(mig) => text(name, length, &format!("{} MIG {}", mig.card.name, mig.profile())),
        }
    };

    fn nvmlDeviceGetMinorNumber(device: DeviceHandle, minor: Pointer<c_uint>) => |driver| {
        minor.set(driver.gpu(device.number())?.minor)
    };

    fn nvmlDeviceGetPciInfo_v3(device: DeviceHandle, info: Pointer<nvmlPciInfo_t>) => |driver| {
        info.set(pci(driver.gpu(device.number())?))
    };

    fn nvmlDeviceGetSerial(device: DeviceHandle, serial: Pointer<c_char>, length: c_uint) => |driver| {
        text(serial, length, &driver.gpu(device.number())?.serial)
    };

    fn nvmlDeviceGetBrand(device: DeviceHandle, brand: Pointer<c_uint>) => |driver| {
        brand.set(driver.device(device.number())?.card().brand.code())
    };

    fn nvmlDeviceGetArchitecture(device: DeviceHandle, architecture: Pointer<c_uint>) => |driver| {
        architecture.set(driver.device(device.number())?.card().architecture.code())
    };

    fn nvmlDeviceGetCudaComputeCapability(
        device: DeviceHandle,
        major: Pointer<c_int>,
        minor: Pointer<c_int>,
    ) => |driver| {
        minor.check()?;
        let capability = driver.device(device.number())?.card().capability;
        let number = |number: u32| c_int::try_from(number).map_err(|_| NvmlError::Unknown);
        major.set(number(capability.major)?)?;
        minor.set(number(capability.minor)?)
    };

    /// Only where the card's memory is a NUMA node itself; where the card is attached to, sysfs says.
    fn nvmlDeviceGetNumaNodeId(device: DeviceHandle, node: Pointer<c_uint>) => |driver| {
        node.check()?;
        let card = driver.gpu(device.number())?;
        let numa = card.numa_node.filter(|_| card.model.coherent);
        node.set(numa.ok_or(NvmlError::NotSupported)?)
    };

    /// 0: the node sees the cards themselves.
    fn nvmlDeviceGetVirtualizationMode(device: DeviceHandle, mode: Pointer<c_uint>) => |driver| {
        driver.gpu(device.number())?;
        mode.set(0)
    };
}
