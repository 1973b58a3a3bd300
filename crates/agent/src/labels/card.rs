//! Labels of the cards.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::text::product;
use super::{LabelOptions, Labels, SharingStrategy};
use crate::collect::NodeFacts;
use crate::config::MigStrategy;
use crate::inventory::{Card, ComputeCapability, Inventory, Mig};

/// The resource of whole cards.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// The cards of the model that labels describe: the one with the most, the first of them where there are several.
pub(super) fn described(inventory: &Inventory) -> Vec<&Card> {
    let mut models: BTreeMap<&str, Vec<&Card>> = BTreeMap::new();
    for card in &inventory.cards {
        models.entry(&card.name).or_default().push(card);
    }
    let most = models.into_values().min_by_key(|cards| (Reverse(cards.len()), cards[0].index));
    most.unwrap_or_default()
}

/// Labels of the model, and of the node as a whole. The inventory has cards.
pub(super) fn add(labels: &mut Labels, inventory: &Inventory, facts: &NodeFacts, options: &LabelOptions) {
    let cards = described(inventory);
    let Some(first) = cards.first() else { return };
    // Cards in MIG mode are not handed out whole, so there are no seats on them.
    let whole = cards.iter().any(|card| !card.is_partitioned());
    let sharing = options.sharing(GPU);
    let suffix = if whole { sharing.suffix() } else { "" };
    let replicas = if whole { sharing.replicas } else { 0 };
    let mut put = |name: &str, value: String| {
        labels.insert(format!("nvidia.com/{name}"), value);
    };
    put("gpu.product", format!("{}{suffix}", product(&first.name)));
    put("gpu.count", cards.len().to_string());
    put("gpu.replicas", replicas.to_string());
    put("gpu.sharing-strategy", sharing.strategy.as_str().to_owned());
    put("gpu.memory", first.memory.0.to_string());
    put("gpu.family", family(first.capability).to_owned());
    put("gpu.compute.major", first.capability.major.to_string());
    put("gpu.compute.minor", first.capability.minor.to_string());
    put(
        "gpu.machine",
        facts.machine.as_deref().map(product).filter(|text| !text.is_empty()).unwrap_or("unknown".to_owned()),
    );
    put("gpu.mode", facts.mode.as_str().to_owned());
    put("mps.capable", (options.strategy == SharingStrategy::Mps).to_string());
    put("vgpu.present", facts.vgpu.to_string());
    put("mig.capable", inventory.cards.iter().any(|card| card.mig != Mig::Incapable).to_string());
    if options.mig_strategy != MigStrategy::None {
        put("mig.strategy", options.mig_strategy.as_str().to_owned());
    }
    if let Some((cluster, clique)) = facts.fabric {
        put("gpu.clique", format!("{}.{clique}", uuid::Uuid::from_bytes(cluster)));
    }
}

fn family(capability: ComputeCapability) -> &'static str {
    match (capability.major, capability.minor) {
        (1, _) => "tesla",
        (2, _) => "fermi",
        (3, _) => "kepler",
        (5, _) => "maxwell",
        (6, _) => "pascal",
        (7, 0..=4) => "volta",
        (7, _) => "turing",
        (8, 0..=8) => "ampere",
        (8, _) => "ada-lovelace",
        (9, _) => "hopper",
        (10 | 12, _) => "blackwell",
        (13, _) => "rubin",
        _ => "undefined",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families() {
        for (major, minor, expected) in [
            (7, 0, "volta"),
            (7, 5, "turing"),
            (8, 0, "ampere"),
            (8, 9, "ada-lovelace"),
            (9, 0, "hopper"),
            (10, 0, "blackwell"),
            (12, 1, "blackwell"),
            (13, 0, "rubin"),
            (4, 0, "undefined"),
            (99, 0, "undefined"),
        ] {
            assert_eq!(family(ComputeCapability { major, minor }), expected, "{major}.{minor}");
        }
    }
}
