//! What a node offers to kubelet: resources and the devices of each.
//!
//! | resource | one id of it |
//! |---|---|
//! | `nvidia.com/gpu` | a card; under the strategy `single` a MIG device; replicated, a turn on one |
//! | `nvidia.com/gpu.shared` | a seat for a share: what it takes of the card stands in the record |
//! | `nvidia.com/mig-<profile>` | a MIG device; replicated, a turn on one |

mod id;
mod name;
mod offer;
mod partitions;

pub use id::DeviceId;
pub use name::{NameError, ResourceName};
pub use offer::{Offer, OfferError, OfferWarning, SeatRules, offer};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inventory::GpuUuid;

/// A resource and its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its name.
    pub name: ResourceName,
    /// What one id takes.
    pub hold: Hold,
    /// Its ids, by card, in NVML's order.
    pub units: Vec<Unit>,
}

impl Resource {
    /// The unit of this id.
    pub fn unit(&self, id: &DeviceId) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.id == *id)
    }
}

/// What kubelet counts as one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name to kubelet.
    pub id: DeviceId,
    /// The card that it is (on).
    pub card: GpuUuid,
    /// The card's NUMA node, where the machine says; none for seats of shares.
    pub numa: Option<u32>,
}

/// What one id of a resource takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hold {
    /// All of a card.
    Whole,
    /// All of a MIG device.
    Slice,
    /// Memory and compute of a card, as the record says.
    Share,
    /// One of so many turns on a card or a MIG device.
    Replica {
        /// How many there are.
        of: u32,
    },
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "all of it",
            Self::Slice => "a MIG device",
            Self::Share => "a share",
            Self::Replica { .. } => "a replica",
        })
    }
}

#[cfg(test)]
mod tests;
