//! Whole cards and MIG devices under the three strategies.

use super::offer::unit_of;
use super::{DeviceId, Hold, OfferError, OfferWarning, ResourceName, Unit};
use crate::config::MigStrategy;
use crate::inventory::{Card, DeviceUuid, Inventory, MigDevice};

/// A resource before anything is replicated.
pub(super) struct Parts {
    pub name: ResourceName,
    pub hold: Hold,
    pub units: Vec<Unit>,
}

/// What the strategy makes of the cards.
pub(super) fn parts(
    inventory: &Inventory,
    strategy: MigStrategy,
    warnings: &mut Vec<OfferWarning>,
) -> Result<Vec<Parts>, OfferError> {
    let cards = inventory.cards.iter();
    match strategy {
        MigStrategy::None => Ok(vec![whole(cards)]),
        MigStrategy::Single => single(inventory),
        MigStrategy::Mixed => mixed(inventory, warnings),
    }
}

fn whole<'a>(cards: impl Iterator<Item = &'a Card>) -> Parts {
    Parts { name: ResourceName::gpu(), hold: Hold::Whole, units: cards.map(unit_of).collect() }
}

/// All cards partitioned alike, or none.
fn single(inventory: &Inventory) -> Result<Vec<Parts>, OfferError> {
    let Some(enabled) = inventory.cards.iter().find(|card| card.is_partitioned()) else {
        return Ok(vec![whole(inventory.cards.iter())]);
    };
    if let Some(disabled) = inventory.cards.iter().find(|card| !card.is_partitioned()) {
        return Err(OfferError::MixedModes { enabled: enabled.uuid.clone(), disabled: disabled.uuid.clone() });
    }
    if let Some(empty) = inventory.cards.iter().find(|card| card.mig.devices().is_empty()) {
        return Err(OfferError::EmptyCard(empty.uuid.clone()));
    }
    let first = &enabled.mig.devices()[0];
    let mut devices = inventory.cards.iter().flat_map(|card| card.mig.devices());
    if let Some(other) = devices.find(|device| !device.is_like(first)) {
        return Err(OfferError::UnequalSlices { first: describe(first), other: describe(other) });
    }
    Ok(vec![Parts {
        name: ResourceName::gpu(),
        hold: Hold::Slice,
        units: slices(inventory).map(|(_, it)| it).collect(),
    }])
}

fn describe(device: &MigDevice) -> String {
    format!("{} with {} MiB and {} multiprocessors", device.profile.0, device.memory.0, device.multiprocessors)
}

/// Whole cards, and each profile as a resource of its own.
fn mixed(inventory: &Inventory, warnings: &mut Vec<OfferWarning>) -> Result<Vec<Parts>, OfferError> {
    let mut parts = vec![whole(inventory.cards.iter().filter(|card| !card.is_partitioned()))];
    for card in inventory.cards.iter().filter(|card| card.is_partitioned()) {
        if card.mig.devices().is_empty() {
            warnings.push(OfferWarning::EmptyCard(card.uuid.clone()));
        }
    }
    for (device, unit) in slices(inventory).filter(|(device, _)| device.is_resource()) {
        let name = ResourceName::nvidia(&format!("mig-{}", device.profile.as_resource()))?;
        match parts.iter_mut().find(|parts| parts.name == name) {
            Some(parts) => parts.units.push(unit),
            None => parts.push(Parts { name, hold: Hold::Slice, units: vec![unit] }),
        }
    }
    Ok(parts)
}

fn slices(inventory: &Inventory) -> impl Iterator<Item = (&MigDevice, Unit)> {
    inventory.cards.iter().flat_map(|card| {
        card.mig.devices().iter().map(|device| {
            let id = DeviceId { device: DeviceUuid::Mig(device.uuid.clone()), seat: None };
            (device, Unit { id, card: card.uuid.clone(), numa: card.numa_node })
        })
    })
}
