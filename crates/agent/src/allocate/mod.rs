//! Which device a container gets: the two questions of kubelet that matter, answered from values alone.
//!
//! kubelet asks *which ids would you like* ([`prefer()`]) and then *give these* ([`decide()`]), and names no pod. Who asks is
//! worked out: pods that kubelet has not admitted yet, in the order in which they were bound, and of each the next
//! container that wants this resource in this number. What their records name is what they get. A pod that fails
//! here is failed for good, so that any placement is given that overcommits no card, with a [`Report`], and only what
//! would overcommit one is refused.
//!
//! [`Report`]: crate::report::Report

mod candidates;
mod decide;
mod holds;
mod links;
mod place;
mod prefer;
mod rebuild;
mod refusal;

pub use decide::{Give, Granted, Outcome, decide};
pub use prefer::{Ask, Preference, prefer};
pub(crate) use rebuild::{entry_of, recorded_devices};
pub use refusal::{Conflict, Refusal};

use gpu_scheduler_engine::model::{DeviceGrant, Mib, Percent};

use crate::checkpoint::Entry;
use crate::config::AllocationPolicy;
use crate::inventory::{DeviceHealth, DeviceUuid, GpuUuid, Seen};
use crate::pods::NodePod;
use crate::resources::Offer;

/// All that the answers depend on.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The node's pods, in the order in which they were bound.
    pub pods: &'a [NodePod],
    /// Whether these are all: false until the first list came.
    pub synced: bool,
    /// What was handed out.
    pub entries: &'a [Entry],
    /// What is offered.
    pub offer: &'a Offer,
    /// The devices and how they are.
    pub seen: &'a Seen,
    /// Where replicas go that nobody has placed.
    pub policy: AllocationPolicy,
    /// Whether a container may have no more than one replica.
    pub one_only: bool,
}

/// Whether there is time left to wait for a change that explains a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// There is.
    Left,
    /// There is not: answer with what is known.
    Over,
}

impl View<'_> {
    fn unhealthy(&self, device: &DeviceUuid, card: &GpuUuid) -> Option<&str> {
        let of = |uuid: &DeviceUuid| match self.seen.health.get(uuid)? {
            DeviceHealth::Healthy => None,
            DeviceHealth::Unhealthy { reason } => Some(reason.as_str()),
        };
        of(device).or_else(|| of(&DeviceUuid::Gpu(card.clone())))
    }

    /// The device and its card that a record's grant names. A record from before the UUID was known has the index.
    fn named(&self, grant: &DeviceGrant) -> Option<(DeviceUuid, GpuUuid)> {
        if let Some(mig) = &grant.mig {
            let DeviceUuid::Mig(uuid) = DeviceUuid::parse(mig)? else { return None };
            let (card, _) = self.seen.inventory.mig_device(&uuid)?;
            return Some((DeviceUuid::Mig(uuid), card.uuid.clone()));
        }
        let uuid = match DeviceUuid::parse(&grant.uuid) {
            Some(DeviceUuid::Gpu(uuid)) => uuid,
            Some(DeviceUuid::Mig(_)) => return None,
            None => self.seen.inventory.cards.iter().find(|card| card.index.0 == grant.index)?.uuid.clone(),
        };
        Some((DeviceUuid::Gpu(uuid.clone()), uuid))
    }

    /// Memory of a whole device.
    fn memory(&self, device: &DeviceUuid) -> Mib {
        let inventory = &self.seen.inventory;
        match device {
            DeviceUuid::Gpu(uuid) => inventory.card(uuid).map(|card| card.memory),
            DeviceUuid::Mig(uuid) => inventory.mig_device(uuid).map(|(_, device)| device.memory),
        }
        .unwrap_or(Mib(0))
    }
}

/// A device as a record grants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Expected {
    device: DeviceUuid,
    card: GpuUuid,
    memory: Mib,
    compute: Percent,
}

#[cfg(test)]
mod tests;
