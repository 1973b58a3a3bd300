//! NVLink lanes of a card, by what is at their other end.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::NVML_NVLINK_MAX_LINKS;

use super::fault::Calls;
use super::raw;
use crate::inventory::{GpuUuid, Link, LinkPeer, PciBusId};

/// The lanes that are up, by peer. `cards` are the node's, by place on the bus as sysfs has it.
pub(super) fn links(device: &Device<'_>, calls: &mut Calls<'_>, cards: &BTreeMap<String, GpuUuid>) -> Vec<Link> {
    let mut lanes = Vec::new();
    for number in 0..NVML_NVLINK_MAX_LINKS {
        let lane = device.link_wrapper_for(number);
        // A card says of the first lane that it has not that it is an invalid argument.
        let state = calls.value("nvmlDeviceGetNvLinkState", || match lane.is_active() {
            Err(NvmlError::InvalidArg) => Ok(None),
            other => other.map(Some),
        });
        match state {
            None | Some(None) => break,
            Some(Some(false)) => continue,
            Some(Some(true)) => {}
        }
        // Where the driver is too old to know the call, the place on the bus tells.
        let switch = calls.value("nvmlDeviceGetNvLinkRemoteDeviceType", || raw::leads_to_switch(device, number));
        if switch == Some(true) {
            lanes.push(LinkPeer::Switch);
            continue;
        }
        let remote = calls.value("nvmlDeviceGetNvLinkRemotePciInfo_v2", || lane.remote_pci_info());
        if let Some(card) = remote.and_then(|pci| cards.get(&PciBusId::from(pci.bus_id.as_str()).in_sysfs())) {
            lanes.push(LinkPeer::Card(card.clone()));
        }
    }
    group(lanes)
}

/// By the place of a card.
pub(super) fn places<'a>(cards: impl IntoIterator<Item = (&'a PciBusId, &'a GpuUuid)>) -> BTreeMap<String, GpuUuid> {
    cards.into_iter().map(|(pci, uuid)| (pci.in_sysfs(), uuid.clone())).collect()
}

fn group(lanes: Vec<LinkPeer>) -> Vec<Link> {
    let mut counts: BTreeMap<LinkPeer, u32> = BTreeMap::new();
    for peer in lanes {
        *counts.entry(peer).or_default() += 1;
    }
    counts.into_iter().map(|(peer, lanes)| Link { peer, lanes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_counted_by_peer() {
        let card = |uuid: &str| LinkPeer::Card(GpuUuid::from(uuid));
        let lanes = vec![card("GPU-b"), LinkPeer::Switch, card("GPU-a"), card("GPU-b")];
        let expected = [(card("GPU-a"), 1), (card("GPU-b"), 2), (LinkPeer::Switch, 1)];
        assert_eq!(group(lanes), expected.map(|(peer, lanes)| Link { peer, lanes }));
        assert_eq!(group(Vec::new()), []);
    }
}
