//! A placement for a container that no record places.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{Mib, Percent};

use super::holds::{Holds, Receiver};
use super::links::closest;
use super::prefer::Ask;
use super::{Expected, View};
use crate::config::AllocationPolicy;
use crate::inventory::DeviceUuid;
use crate::resources::{DeviceId, Hold, Resource, Unit};

/// What one id of a resource takes if no record says it: for a share, its part of the seats there are.
pub(super) fn usual(view: &View<'_>, resource: &Resource, unit: &Unit) -> Expected {
    let total = view.memory(&unit.id.device);
    let seats = resource.units.iter().filter(|other| other.id.device == unit.id.device).count().max(1) as u64;
    let (memory, compute) = match resource.hold {
        Hold::Whole | Hold::Slice => (total, Percent::ALL),
        Hold::Share => (Mib(total.0 / seats), Percent(0)),
        Hold::Replica { of } => (Mib(total.0 / u64::from(of.max(1))), Percent(100 / of.max(1))),
    };
    Expected { device: unit.id.device.clone(), card: unit.card.clone(), memory, compute }
}

/// As many ids as are asked for: those that overcommit nothing and that no record names, close together or packed; what
/// is still missing comes from the rest, since kubelet takes it from there anyway.
pub(super) fn place(view: &View<'_>, holds: &Holds<'_>, ask: &Ask<'_>, receiver: Receiver<'_>) -> Vec<DeviceId> {
    let units: Vec<&Unit> = ask.available.iter().filter_map(|id| ask.resource.unit(id)).collect();
    let mut taken: Vec<DeviceId> = ask.must.to_vec();
    let free: Vec<&Unit> =
        units.iter().copied().filter(|unit| is_safe(view, holds, ask.resource, unit, receiver)).collect();
    match ask.resource.hold {
        Hold::Whole => whole(view, &free, &mut taken, ask.size),
        Hold::Slice | Hold::Share | Hold::Replica { .. } => {
            one_a_device(view, holds, ask.resource, &free, &mut taken, ask.size);
        }
    }
    // A second seat on the same device, then anything at all.
    for unit in free.iter().chain(&units) {
        if taken.len() < ask.size && !taken.contains(&unit.id) {
            taken.push(unit.id.clone());
        }
    }
    taken.truncate(ask.size);
    taken
}

fn is_safe(view: &View<'_>, holds: &Holds<'_>, resource: &Resource, unit: &Unit, receiver: Receiver<'_>) -> bool {
    view.unhealthy(&unit.id.device, &unit.card).is_none()
        && match resource.hold {
            Hold::Whole | Hold::Slice => holds.is_free(&unit.id.device, &unit.card, receiver),
            Hold::Share | Hold::Replica { .. } => {
                holds.conflict(receiver, resource.hold, &[usual(view, resource, unit)]).is_none()
            }
        }
}

fn whole(view: &View<'_>, free: &[&Unit], taken: &mut Vec<DeviceId>, size: usize) {
    let inventory = &view.seen.inventory;
    let mine = |id: &DeviceId| taken.contains(id) || free.iter().any(|unit| unit.id == *id);
    let of = |uuid| DeviceId { device: DeviceUuid::Gpu(uuid), seat: None };
    let cards: Vec<_> = inventory.cards.iter().filter(|card| mine(&of(card.uuid.clone()))).collect();
    let must: Vec<usize> = (0..cards.len()).filter(|&at| taken.contains(&of(cards[at].uuid.clone()))).collect();
    for at in closest(&cards, &must, size) {
        let id = of(cards[at].uuid.clone());
        if !taken.contains(&id) {
            taken.push(id);
        }
    }
}

/// One id on each of several devices: on the fullest for shares and wherever the policy packs, else on the emptiest.
fn one_a_device(
    view: &View<'_>,
    holds: &Holds<'_>,
    resource: &Resource,
    free: &[&Unit],
    taken: &mut Vec<DeviceId>,
    size: usize,
) {
    let mut devices: BTreeMap<usize, &Unit> = BTreeMap::new();
    for unit in free {
        let place = resource.units.iter().position(|other| other.id.device == unit.id.device).unwrap_or(usize::MAX);
        let first = devices.entry(place).or_insert(unit);
        if unit.id.seat < first.id.seat {
            *first = unit;
        }
    }
    let mut devices: Vec<(usize, &Unit)> = devices.into_iter().collect();
    let load = |unit: &Unit| match resource.hold {
        // Neighbours on the card count: a card that is begun is filled.
        Hold::Slice => holds.load(&unit.card, None),
        Hold::Whole | Hold::Share | Hold::Replica { .. } => holds.load(&unit.card, Some(&unit.id.device)),
    };
    let packed = resource.hold == Hold::Share || view.policy == AllocationPolicy::Packed;
    devices.sort_by_key(|(place, unit)| {
        let (holders, memory) = load(unit);
        let key = if resource.hold == Hold::Share { memory.0 } else { holders as u64 };
        (if packed { u64::MAX - key } else { key }, *place)
    });
    for (_, unit) in devices {
        if taken.len() < size && !taken.iter().any(|id| id.device == unit.id.device) {
            taken.push(unit.id.clone());
        }
    }
}
