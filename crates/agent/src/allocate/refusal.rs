//! Why something is not given.

use gpu_scheduler_engine::model::Mib;
use thiserror::Error;

use crate::checkpoint::Holder;
use crate::inventory::{DeviceUuid, GpuUuid};
use crate::resources::{Hold, ResourceName};

/// Why something is not given. kubelet shows the text on the pod.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The resource is not offered, or no longer.
    #[error("{0} is not offered on this node; delete the pod, and it is placed anew")]
    NoSuchResource(ResourceName),
    /// The resource has no such id.
    #[error("{resource} has no device {id} on this node (any more); delete the pod, and it is placed anew")]
    NoSuchDevice {
        /// The resource.
        resource: ResourceName,
        /// What kubelet asked for.
        id: String,
    },
    /// More replicas than a container may have.
    #[error(
        "a container may have one {0}, for more of them are no more of the device: failRequestsGreaterThanOne is set; \
         ask for 1"
    )]
    OneOnly(ResourceName),
    /// The device does not work, and no record names it.
    #[error("{device} is unhealthy ({reason}); delete the pod, and it is placed anew")]
    Unhealthy {
        /// The device.
        device: DeviceUuid,
        /// Why.
        reason: String,
    },
    /// It would overcommit a card.
    #[error("{0}; delete the pod, and it is placed anew")]
    Overcommits(Box<Conflict>),
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Self {
        Self::Overcommits(Box::new(conflict))
    }
}

/// What would overcommit a card.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Conflict {
    /// The device is another's.
    #[error("{device} {} {}, which {} {hold}", if *promised { "is kept for" } else { "is held by" }, of(by.as_ref()),
        if *promised { "was placed there for" } else { "has" })]
    Held {
        /// The device.
        device: DeviceUuid,
        /// Whose it is.
        by: Option<Holder>,
        /// How much of it.
        hold: Hold,
        /// Whether kubelet has yet to ask for it.
        promised: bool,
    },
    /// What shares ask for is more than the card has.
    #[error("{} MiB do not fit on {card}: of {} MiB, {} MiB are held by {}", asked.0, total.0, taken.0, all(by))]
    Memory {
        /// The card.
        card: GpuUuid,
        /// What is asked for.
        asked: Mib,
        /// What it has.
        total: Mib,
        /// What others hold.
        taken: Mib,
        /// Who they are.
        by: Vec<Holder>,
    },
}

fn of(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "a container that nobody has named yet".to_owned(), ToString::to_string)
}

fn all(holders: &[Holder]) -> String {
    match holders {
        [] => "containers that nobody has named yet".to_owned(),
        _ => holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
