//! Labels of MIG devices, by strategy.

use std::collections::BTreeMap;

use super::card::{GPU, described};
use super::partition;
use super::text::product;
use super::{LabelOptions, Labels};
use crate::inventory::{Card, Inventory, MigDevice};

/// Strategy `single`: the MIG devices take the place of the cards, if all are alike.
pub(super) fn add_single(labels: &mut Labels, inventory: &Inventory, options: &LabelOptions) {
    let enabled = inventory.cards.iter().filter(|card| card.is_partitioned()).count();
    if enabled == 0 {
        return; // whole cards, as without MIG
    }
    let devices: Vec<&MigDevice> = inventory.cards.iter().flat_map(|card| card.mig.devices()).collect();
    let model = described(inventory).first().map(|card| product(&card.name)).unwrap_or_default();
    let alike = enabled == inventory.cards.len()
        && inventory.cards.iter().all(|card| !card.mig.devices().is_empty())
        && devices.windows(2).all(|pair| pair[0].is_like(pair[1]));
    match devices.first() {
        Some(first) if alike => partition::add(labels, GPU, &model, first, devices.len(), options.sharing(GPU)),
        _ => invalid(labels, &model),
    }
}

/// The node is set up otherwise than the strategy wants: nothing is offered, and the product says so.
fn invalid(labels: &mut Labels, model: &str) {
    for (name, value) in [
        ("product", format!("{model}-MIG-INVALID")),
        ("count", "0".to_owned()),
        ("replicas", "0".to_owned()),
        ("memory", "0".to_owned()),
        ("sharing-strategy", String::new()),
    ] {
        labels.insert(format!("{GPU}.{name}"), value);
    }
}

/// Strategy `mixed`: each profile is a resource beside the cards.
pub(super) fn add_mixed(labels: &mut Labels, inventory: &Inventory, options: &LabelOptions) {
    let mut profiles: BTreeMap<String, Vec<(&Card, &MigDevice)>> = BTreeMap::new();
    for card in &inventory.cards {
        for device in card.mig.devices().iter().filter(|device| device.is_resource()) {
            let resource = format!("nvidia.com/mig-{}", device.profile.as_resource());
            profiles.entry(resource).or_default().push((card, device));
        }
    }
    for (resource, devices) in profiles {
        let (card, first) = devices[0];
        let sharing = options.sharing(&resource);
        partition::add(labels, &resource, &product(&card.name), first, devices.len(), sharing);
    }
}
