//! How the cards are connected.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    self as nvml, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlPciInfo_t,
};

use super::call::exports;
use super::enumerate::{DeviceHandle, pci, place};
use super::pointer::{Pointer, version};
use crate::describe::{Architecture, BusId, Fabric, FabricState, Link, NvmlError, Remote};
use crate::driver::Driver;
use crate::machine::Card;

/// The nearest thing that two cards have in common.
fn common_ancestor(one: &Card, other: &Card) -> u32 {
    let same = |of: fn(&Card) -> Option<&String>| of(one).is_some() && of(one) == of(other);
    if one.uuid == other.uuid {
        nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_INTERNAL
    } else if same(|card| card.gpu.pci.switch.as_ref()) {
        nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_SINGLE
    } else if same(|card| card.gpu.pci.host_bridge.as_ref()) {
        nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_HOSTBRIDGE
    } else if one.numa_node == other.numa_node {
        nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE
    } else {
        nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_SYSTEM
    }
}

fn p2p_status(one: &Card, other: &Card, capability: c_uint) -> Result<u32, NvmlError> {
    let linked = one.is_linked_to(other) || other.is_linked_to(one);
    let near = common_ancestor(one, other) <= nvml::nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE;
    let (can, or_else) = match capability {
        nvml::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_READ
        | nvml::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_WRITE => {
            (linked || near, nvml::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED)
        }
        nvml::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_PCI => {
            (near, nvml::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED)
        }
        nvml::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_NVLINK
        | nvml::nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_ATOMICS => {
            (linked, nvml::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED)
        }
        _ => return Err(NvmlError::InvalidArgument),
    };
    Ok(if can { nvml::nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_OK } else { or_else })
}

/// A link of a card; none if it is down.
fn link(driver: &Driver, device: DeviceHandle, link: c_uint) -> Result<(&Card, Option<&Link>), NvmlError> {
    let card = driver.gpu(device.number())?;
    if card.model.links == 0 {
        return Err(NvmlError::NotSupported);
    }
    if link >= card.model.links {
        return Err(NvmlError::InvalidArgument);
    }
    Ok((card, card.links.get(link as usize).filter(|link| link.active)))
}

/// A link that is up, for what is asked of those alone.
fn active(driver: &Driver, device: DeviceHandle, index: c_uint) -> Result<(&Card, &Link), NvmlError> {
    let (card, link) = link(driver, device, index)?;
    Ok((card, link.ok_or(NvmlError::NotSupported)?))
}

/// The card at the other end of a link, if it is one.
fn remote<'a>(driver: &'a Driver, link: &Link) -> Result<Option<&'a Card>, NvmlError> {
    let machine = driver.machine()?;
    let found = match &link.remote {
        Remote::Switch => return Ok(None),
        Remote::Gpu(uuid) => machine.card(uuid),
        Remote::Index(index) => machine.cards.get(*index as usize),
    };
    // A description whose links lead nowhere was refused.
    found.map(Some).ok_or(NvmlError::Unknown)
}

/// The switch at the other end of a link: the links of a card are dealt out to the board's switches in turn.
fn switch(card: &Card, link: c_uint) -> nvmlPciInfo_t {
    let (switches, device) =
        if card.architecture >= Architecture::Hopper { (4, 0x22A3_10DE) } else { (6, 0x1AF1_10DE) };
    let number = u8::try_from(link % switches).expect("a board has few switches");
    place(BusId { domain: 0, bus: 0xF0 + number, device: 0 }, device, device)
}

fn fabric(card: &Card) -> Result<Fabric, NvmlError> {
    if card.architecture < Architecture::Hopper {
        return Err(NvmlError::NotSupported);
    }
    let none = Fabric { state: FabricState::NotSupported, cluster: uuid::Uuid::nil(), clique: 0 };
    Ok(card.gpu.fabric.clone().unwrap_or(none))
}

exports! {
    fn nvmlDeviceGetTopologyCommonAncestor(one: DeviceHandle, other: DeviceHandle, level: Pointer<c_uint>) => |driver| {
        level.set(common_ancestor(driver.gpu(one.number())?, driver.gpu(other.number())?))
    };

    fn nvmlDeviceGetP2PStatus(
        one: DeviceHandle,
        other: DeviceHandle,
        capability: c_uint,
        status: Pointer<c_uint>,
    ) => |driver| status.set(p2p_status(driver.gpu(one.number())?, driver.gpu(other.number())?, capability)?);

    fn nvmlDeviceGetNvLinkState(device: DeviceHandle, index: c_uint, state: Pointer<c_uint>) => |driver| {
        state.set(link(driver, device, index)?.1.is_some().into())
    };

    fn nvmlDeviceGetNvLinkErrorCounter(
        device: DeviceHandle,
        index: c_uint,
        counter: c_uint,
        count: Pointer<u64>,
    ) => |driver| {
        let (_, link) = active(driver, device, index)?;
        count.set(match counter {
            nvml::nvmlNvLinkErrorCounter_enum_NVML_NVLINK_ERROR_DL_REPLAY => link.replays,
            other if other < nvml::nvmlNvLinkErrorCounter_enum_NVML_NVLINK_ERROR_COUNT => 0,
            _ => return Err(NvmlError::InvalidArgument),
        })
    };

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
        device: DeviceHandle,
        index: c_uint,
        info: Pointer<nvmlPciInfo_t>,
    ) => |driver| {
        let (card, link) = active(driver, device, index)?;
        info.set(remote(driver, link)?.map_or_else(|| switch(card, index), pci))
    };

    fn nvmlDeviceGetNvLinkRemoteDeviceType(device: DeviceHandle, index: c_uint, kind: Pointer<c_uint>) => |driver| {
        let (_, link) = active(driver, device, index)?;
        kind.set(match link.remote {
            Remote::Switch => nvml::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH,
            Remote::Gpu(_) | Remote::Index(_) => nvml::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU,
        })
    };

    fn nvmlDeviceGetGpuFabricInfo(device: DeviceHandle, info: Pointer<nvmlGpuFabricInfo_t>) => |driver| {
        info.check()?;
        let fabric = fabric(driver.gpu(device.number())?)?;
        info.set(nvmlGpuFabricInfo_t {
            clusterUuid: fabric.cluster.into_bytes(),
            status: nvml::nvmlReturn_enum_NVML_SUCCESS,
            cliqueId: fabric.clique,
            state: fabric.state.code(),
        })
    };

    fn nvmlDeviceGetGpuFabricInfoV(device: DeviceHandle, info: Pointer<nvmlGpuFabricInfo_v3_t>) => |driver| {
        let fabric = fabric(driver.gpu(device.number())?)?;
        let edition = info.cast::<c_uint>().get()?;
        let (second, third) = (version::<nvmlGpuFabricInfo_v2_t>(2), version::<nvmlGpuFabricInfo_v3_t>(3));
        if edition == second {
            info.cast().set(nvmlGpuFabricInfo_v2_t {
                version: edition,
                clusterUuid: fabric.cluster.into_bytes(),
                status: nvml::nvmlReturn_enum_NVML_SUCCESS,
                cliqueId: fabric.clique,
                state: fabric.state.code(),
                healthMask: 0,
            })
        } else if edition == third {
            info.set(nvmlGpuFabricInfo_v3_t {
                version: edition,
                clusterUuid: fabric.cluster.into_bytes(),
                status: nvml::nvmlReturn_enum_NVML_SUCCESS,
                cliqueId: fabric.clique,
                state: fabric.state.code(),
                healthMask: 0,
                healthSummary: 0,
            })
        } else {
            Err(NvmlError::ArgumentVersionMismatch)
        }
    };
}
