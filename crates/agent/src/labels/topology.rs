//! How the cards reach each other.

use crate::inventory::{Inventory, LinkPeer};

/// The value of `nvidia.com/gpu.topology`: through NVSwitches, directly by NVLink, over PCIe, or there is nobody to reach.
pub(super) fn of(inventory: &Inventory) -> &'static str {
    if inventory.cards.len() < 2 {
        return "none";
    }
    let mut peers = inventory.cards.iter().flat_map(|card| &card.links).map(|link| &link.peer);
    match peers.clone().next() {
        None => "pcie",
        Some(_) if peers.any(|peer| *peer == LinkPeer::Switch) => "nvswitch",
        Some(_) => "nvlink",
    }
}
