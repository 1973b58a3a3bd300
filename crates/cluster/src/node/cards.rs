//! The cards of a node, from its capacity and the labels of GPU Feature Discovery.

use gpu_scheduler_engine::model::{CardSpec, Mib, Partitioning, ResourceList};

use super::mig;
use crate::objects::ObjectMeta;
use crate::problem::Finding;

const CARDS: &str = "nvidia.com/gpu";
const SEATS: &str = "nvidia.com/gpu.shared";
const PRODUCT: &str = "nvidia.com/gpu.product";
const MEMORY: &str = "nvidia.com/gpu.memory";
const REPLICAS: &str = "nvidia.com/gpu.replicas";
const COUNT: &str = "nvidia.com/gpu.count";

/// More cards than any machine has. A capacity beyond it is a mistake, and must not cost the memory that so
/// many cards would take.
pub(crate) const MOST_CARDS: u32 = 4096;

/// The model name of a product label: without the suffix that GPU Feature Discovery adds where cards are
/// time-sliced, because the card is the same.
pub(crate) fn product(label: &str) -> String {
    let product = label.strip_suffix("-SHARED").unwrap_or(label);
    if product.is_empty() { "unknown".to_owned() } else { product.to_owned() }
}

/// The cards that a node's own object tells of.
pub(super) fn read(metadata: &ObjectMeta, capacity: &ResourceList, findings: &mut Vec<Finding>) -> Vec<CardSpec> {
    let mut reader = Reader { metadata, capacity, findings };
    let model = product(metadata.labels.get(PRODUCT).map(String::as_str).unwrap_or_default());
    let memory = reader.label(MEMORY).filter(|mib| *mib > 0).map(Mib);
    let (count, partitioning) = reader.ordinary();
    let mut cards: Vec<CardSpec> = (0..count)
        .map(|index| {
            let uuid = CardSpec::made_up_uuid(&metadata.name, index);
            let mut card = CardSpec::new(uuid, index, &model, memory);
            card.partitioning = partitioning.clone();
            card
        })
        .collect();
    // GPU Feature Discovery counts all cards of the model, those in MIG mode too; the capacity in whole cards
    // does not have the latter.
    let parents = reader.label(COUNT).map_or(0, |n| u32::try_from(n).unwrap_or(MOST_CARDS)).saturating_sub(count);
    let profiles = reader.profiles();
    for (offset, partitions) in mig::arrange(&profiles, parents.min(MOST_CARDS), &model, memory).into_iter().enumerate()
    {
        let index = count + u32::try_from(offset).unwrap_or(u32::MAX);
        let uuid = CardSpec::made_up_uuid(&metadata.name, index);
        let partitioning = Partitioning::Mig(mig::name(&uuid, partitions));
        let mut card = CardSpec::new(uuid, index, &model, memory);
        card.partitioning = partitioning;
        cards.push(card);
    }
    cards
}

struct Reader<'a> {
    metadata: &'a ObjectMeta,
    capacity: &'a ResourceList,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    /// How many cards are not in MIG mode, and how they are divided.
    fn ordinary(&mut self) -> (u32, Partitioning) {
        // Feature discovery writes 1 for cards that are not shared, and 0 for those in MIG mode.
        let replicas = self.label(REPLICAS).map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX)).max(1);
        let cards = self.count(CARDS);
        if replicas == 1 {
            return (cards, Partitioning::OnDemand);
        }
        // With `renameByDefault` the seats have a name of their own. Next to whole cards that name is not
        // another set of cards: our own agent offers both for the same ones.
        let (name, seats) = if cards > 0 { (CARDS, cards) } else { (SEATS, self.count(SEATS)) };
        if seats % replicas != 0 {
            self.findings.push(Finding::new(
                format!("status.capacity.{name}"),
                format!(
                    "{seats} seats are not a multiple of the {replicas} a card that the label {REPLICAS} states; \
                     counted as {} cards",
                    seats / replicas
                ),
                "check that the label and the device plugin's configuration agree",
            ));
        }
        (seats / replicas, Partitioning::TimeSliced { seats: replicas })
    }

    /// The MIG slices by profile.
    fn profiles(&mut self) -> Vec<(String, u32)> {
        let capacity = self.capacity;
        let names = capacity.keys().filter_map(|name| name.strip_prefix(mig::RESOURCE).map(|profile| (name, profile)));
        let mut profiles = Vec::new();
        // Seats on slices under a name of their own are plain resources, on pods as well as here.
        for (name, profile) in names.filter(|(_, profile)| !profile.ends_with(".shared")) {
            let mut slices = self.count(name);
            if slices > 0 && mig::size(profile).is_none() {
                self.findings.push(Finding::new(
                    format!("status.capacity.{name}"),
                    format!("{profile:?} is not a MIG profile, and its slices were left out"),
                    "a profile is written <slices>g.<memory>gb, such as 1g.10gb",
                ));
                continue;
            }
            let replicas_label = format!("{name}.replicas");
            let replicas = self.label(&replicas_label).and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1);
            if replicas > 1 && slices > 0 {
                slices /= replicas;
                self.findings.push(Finding::new(
                    format!("metadata.labels.{replicas_label}"),
                    format!("time-sliced MIG slices are not known here: each of the {slices} takes one container"),
                    "turn time-slicing off for this profile",
                ));
            }
            if slices > 0 {
                profiles.push((profile.to_owned(), slices));
            }
        }
        profiles
    }

    /// A number in a label; an unreadable one is reported and counts as absent.
    fn label(&mut self, name: &str) -> Option<u64> {
        let text = self.metadata.labels.get(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.findings.push(Finding::new(
                format!("metadata.labels.{name}"),
                format!("{text:?} is not a whole number, and the label was left out"),
                "correct the label, or let feature discovery or the node agent write it",
            ));
        }
        number
    }

    /// The capacity in a device, at most [`MOST_CARDS`].
    fn count(&mut self, name: &str) -> u32 {
        let amount = self.capacity.get(name).map_or(0, |q| q.value());
        match u32::try_from(amount) {
            Ok(count) if count <= MOST_CARDS => count,
            _ => {
                self.findings.push(Finding::new(
                    format!("status.capacity.{name}"),
                    format!("{amount} is more than any node has, and {MOST_CARDS} were counted"),
                    "correct the node's capacity",
                ));
                MOST_CARDS
            }
        }
    }
}
