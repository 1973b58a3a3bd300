//! From what is there and how it is configured to what is offered.

use thiserror::Error;

use super::partitions::{self, Parts};
use super::{DeviceId, Hold, NameError, Resource, ResourceName, Unit};
use crate::config::{Config, Sharing};
use crate::inventory::{Card, ComputeCapability, DeviceUuid, GpuUuid, Inventory};

/// Longest id that kubelet's protocol allows.
const LONGEST_ID: usize = 63;
/// From this generation on an MPS server takes more than 16 clients.
const MANY_CLIENTS: ComputeCapability = ComputeCapability { major: 7, minor: 5 };
/// Clients of an MPS server before it.
const FEW: u32 = 16;
/// Clients of an MPS server since.
const MANY: u32 = 48;

/// How seats for shares are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatRules {
    /// Seats of a card; 0 offers none.
    pub per_card: u32,
    /// Whether an MPS server holds shares to their limits, which takes only so many clients.
    pub by_mps: bool,
}

impl Default for SeatRules {
    fn default() -> Self {
        Self { per_card: MANY, by_mps: false }
    }
}

impl SeatRules {
    /// Seats of this card.
    pub fn on(&self, card: &Card) -> u32 {
        if self.by_mps { self.per_card.min(clients(card)) } else { self.per_card }
    }
}

/// Clients that an MPS server of this card takes.
fn clients(card: &Card) -> u32 {
    if card.capability < MANY_CLIENTS { FEW } else { MANY }
}

/// What is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// The resources, each with at least one device.
    pub resources: Vec<Resource>,
    /// What is left out, and why.
    pub warnings: Vec<OfferWarning>,
}

/// Something that is not offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum OfferWarning {
    /// The configuration gives the seats' name to replicas.
    #[error(
        "renameByDefault calls the replicas of nvidia.com/gpu nvidia.com/gpu.shared, so there are no seats for shares; \
         take nvidia.com/gpu out of sharing to have them"
    )]
    SeatsRenamed,
    /// A partitioned card has no part.
    #[error("MIG is enabled on {0} and it has no MIG devices, so it is not offered; make some, or disable MIG there")]
    EmptyCard(GpuUuid),
    /// A card does not say how much memory it has.
    #[error("{0} does not say how much memory it has, so it has no seats for shares; it is offered whole")]
    MemoryUnknown(GpuUuid),
    /// The configuration replicates what is not there.
    #[error("sharing replicates {0}, and this node has none of it; take it out, or see migStrategy")]
    NothingToReplicate(ResourceName),
}

/// Why nothing can be offered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Under `single` some cards are partitioned and others not.
    #[error(
        "migStrategy single needs MIG enabled on all cards or on none; it is enabled on {enabled}, and not on \
         {disabled}; change one of them, or use mixed"
    )]
    MixedModes {
        /// A card on which it is.
        enabled: GpuUuid,
        /// A card on which it is not.
        disabled: GpuUuid,
    },
    /// Under `single` a partitioned card has no part.
    #[error("migStrategy single needs MIG devices on every card, and {0} has none; make some, or use mixed")]
    EmptyCard(GpuUuid),
    /// Under `single` parts differ.
    #[error(
        "migStrategy single needs equal MIG devices on all cards; there are {first} and {other}; partition the cards \
         alike, or use mixed"
    )]
    UnequalSlices {
        /// A profile.
        first: String,
        /// Another one.
        other: String,
    },
    /// MPS on a partitioned card.
    #[error("sharing.mps does not work on {0}, where MIG is enabled; disable MIG there, or use timeSlicing")]
    MpsOnMig(GpuUuid),
    /// More clients than an MPS server takes.
    #[error("an MPS server of {card} takes {most} clients, and sharing.mps asks for {replicas}; write at most {most}")]
    TooManyReplicas {
        /// The card.
        card: GpuUuid,
        /// What is configured.
        replicas: u32,
        /// What it takes.
        most: u32,
    },
    /// A name that cannot be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An id that cannot be.
    #[error("the id {0} is longer than the {LONGEST_ID} characters that kubelet allows")]
    LongId(DeviceId),
}

/// What this node offers.
///
/// # Errors
/// [`OfferError`] where NVIDIA's plugin ends at its start too: nothing is offered until cards or configuration change.
pub fn offer(inventory: &Inventory, config: &Config, seats: SeatRules) -> Result<Offer, OfferError> {
    let mut offer = Offer::default();
    for Parts { name, hold, units } in partitions::parts(inventory, config.mig_strategy, &mut offer.warnings)? {
        offer.resources.push(replicated(Resource { name, hold, units }, inventory, config)?);
    }
    let shared = config.sharing.replication();
    for name in shared.iter().flat_map(|replication| replication.resources.keys()) {
        let renamed = name.shared().ok();
        let named = |resource: &&Resource| resource.name == *name || Some(&resource.name) == renamed.as_ref();
        if !inventory.cards.is_empty() && offer.resources.iter().find(named).is_none() {
            offer.warnings.push(OfferWarning::NothingToReplicate(name.clone()));
        }
    }
    match shared {
        Some(replication) if replication.resources.contains_key(&ResourceName::gpu()) => {
            if replication.rename {
                offer.warnings.push(OfferWarning::SeatsRenamed);
            }
        }
        _ => offer.resources.extend(share_seats(inventory, seats, &mut offer.warnings)?),
    }
    offer.resources.retain(|resource| !resource.units.is_empty());
    let ids = offer.resources.iter().flat_map(|resource| &resource.units).map(|unit| &unit.id);
    match ids.clone().find(|id| id.to_string().len() > LONGEST_ID) {
        Some(id) => Err(OfferError::LongId(id.clone())),
        None => Ok(offer),
    }
}

/// The resource as the configuration replicates it, or as it is.
fn replicated(resource: Resource, inventory: &Inventory, config: &Config) -> Result<Resource, OfferError> {
    let Some(replication) = config.sharing.replication() else { return Ok(resource) };
    let Some(&replicas) = replication.resources.get(&resource.name) else { return Ok(resource) };
    if matches!(config.sharing, Sharing::Mps(_)) {
        for card in resource.units.iter().filter_map(|unit| inventory.card(&unit.card)) {
            if card.is_partitioned() {
                return Err(OfferError::MpsOnMig(card.uuid.clone()));
            }
            if replicas > clients(card) {
                return Err(OfferError::TooManyReplicas { card: card.uuid.clone(), replicas, most: clients(card) });
            }
        }
    }
    Ok(Resource {
        name: if replication.rename { resource.name.shared()? } else { resource.name },
        hold: Hold::Replica { of: replicas },
        units: resource.units.iter().flat_map(|unit| several(unit, replicas)).collect(),
    })
}

/// Seats for shares, on all cards that are not partitioned.
///
/// They have no NUMA node. A share is placed by the memory that cards have left, which kubelet knows nothing of; a topology
/// manager would take the seats of the lowest NUMA node until they are used up, whatever the records say.
fn share_seats(
    inventory: &Inventory,
    seats: SeatRules,
    warnings: &mut Vec<OfferWarning>,
) -> Result<Option<Resource>, OfferError> {
    if seats.per_card == 0 {
        return Ok(None);
    }
    let mut units = Vec::new();
    for card in inventory.cards.iter().filter(|card| !card.is_partitioned()) {
        if card.memory.0 == 0 {
            warnings.push(OfferWarning::MemoryUnknown(card.uuid.clone()));
            continue;
        }
        units.extend(several(&Unit { numa: None, ..unit_of(card) }, seats.on(card)));
    }
    Ok(Some(Resource { name: ResourceName::gpu().shared()?, hold: Hold::Share, units }))
}

/// A card as one unit.
pub(super) fn unit_of(card: &Card) -> Unit {
    let id = DeviceId { device: DeviceUuid::Gpu(card.uuid.clone()), seat: None };
    Unit { id, card: card.uuid.clone(), numa: card.numa_node }
}

/// One unit as several.
fn several(unit: &Unit, n: u32) -> impl Iterator<Item = Unit> {
    (0..n).map(|seat| Unit { id: DeviceId { seat: Some(seat), ..unit.id.clone() }, ..unit.clone() })
}
