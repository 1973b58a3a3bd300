//! What a container sees of what it was given: variables, mounts, device nodes, and names for CDI.

mod cdi;
mod nodes;
mod response;

pub use cdi::{CDI_FILE, SpecError, spec, write_spec};
pub use nodes::{DeviceNode, DeviceNodes};
pub use response::{MpsAccess, response};

use crate::config::DeviceIdStrategy;
use crate::inventory::{DeviceUuid, Inventory};

/// What a device is called to containers: its UUID, or `0` and `0:1` by its place in NVML's enumeration.
fn called(inventory: &Inventory, device: &DeviceUuid, by: DeviceIdStrategy) -> String {
    let index = match (by, device) {
        (DeviceIdStrategy::Uuid, _) => None,
        (DeviceIdStrategy::Index, DeviceUuid::Gpu(uuid)) => inventory.card(uuid).map(|card| card.index.0.to_string()),
        (DeviceIdStrategy::Index, DeviceUuid::Mig(uuid)) => {
            inventory.mig_device(uuid).map(|(card, device)| format!("{}:{}", card.index.0, device.index))
        }
    };
    index.unwrap_or_else(|| device.to_string())
}

#[cfg(test)]
mod tests;
