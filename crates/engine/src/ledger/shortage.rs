//! Why a node's cards do not do.

use smallvec::SmallVec;

use crate::ledger::{Card, Closed, NumaSet};
use crate::model::{Mib, Partitioning, Percent, ShareMemory, TopologyManagerPolicy};

/// Cards that are not held and take nothing all the same, and memory that is used without being granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Barred {
    /// Unhealthy cards.
    pub unhealthy: u32,
    /// Overcommitted cards.
    pub overcommitted: u32,
    /// Memory used by processes that no grant explains.
    pub foreign: Mib,
}

impl Barred {
    pub(super) fn of<'a>(cards: impl Iterator<Item = &'a Card>) -> Self {
        let mut barred = Self::default();
        for card in cards {
            match card.room().closed {
                Some(Closed::Unhealthy) => barred.unhealthy += 1,
                Some(Closed::Overcommitted(_)) => barred.overcommitted += 1,
                _ => {}
            }
            barred.foreign = barred.foreign.saturating_add(card.unexplained());
        }
        barred
    }
}

/// Why a node's cards do not do, with the numbers of the nearest miss.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// The node has no card at all.
    NoGpu,
    /// It has cards, none of a wanted model or UUID.
    NoMatch,
    /// Too few whole cards.
    Cards {
        /// Cards asked.
        asked: u32,
        /// Wholly free ones.
        free: u32,
        /// All that match.
        total: u32,
        /// Why others are not free, besides being held.
        barred: Barred,
    },
    /// No card has the memory.
    Memory {
        /// Index of the card that comes nearest.
        card: u32,
        /// Memory asked.
        asked: Mib,
        /// Memory free on it.
        free: Mib,
        /// Memory of the largest card.
        largest: Mib,
        /// What else is the matter with it.
        barred: Barred,
    },
    /// Cards have the memory, none of them the compute.
    Compute {
        /// Index of the card that comes nearest.
        card: u32,
        /// Compute asked.
        asked: Percent,
        /// Compute free on it.
        free: Percent,
    },
    /// The share fits, but on too few distinct cards.
    ShareCards {
        /// Cards asked.
        asked: u32,
        /// Cards that fit.
        fitting: u32,
        /// All that match.
        total: u32,
    },
    /// Shares need to know a card's memory, and nobody said it.
    MemoryUnknown,
    /// All cards are time-sliced or partitioned: none can be shared by memory.
    NotShareable,
    /// Too few cards with a free seat.
    Seats {
        /// Seats asked, each on a card of its own.
        asked: u32,
        /// Cards with a free seat.
        free: u32,
        /// Time-sliced cards.
        total: u32,
    },
    /// Too few slices of the profile.
    Slices {
        /// The profile.
        profile: String,
        /// Slices asked.
        asked: u32,
        /// Free ones.
        free: u32,
        /// All of them.
        total: u32,
    },
    /// There are enough, but not as kubelet's topology manager wants them.
    Numa {
        /// Its policy.
        policy: TopologyManagerPolicy,
        /// Devices asked.
        asked: u32,
        /// The NUMA nodes that it would choose; `None` where it would refuse the pod.
        chosen: Option<NumaSet>,
        /// What NUMA nodes have.
        nodes: SmallVec<[NumaRoom; 2]>,
    },
    /// Every container would fit alone, but not together.
    Combination,
}

/// Devices of one resource on a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumaRoom {
    /// Its number.
    pub node: u32,
    /// All of them.
    pub total: u32,
    /// Those that kubelet would hand out. It does not know of shares, models and UUIDs.
    pub available: u32,
    /// Those that can be given.
    pub free: u32,
}

impl Shortage {
    /// Whether no release on the node could help.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::NoGpu | Self::NoMatch | Self::MemoryUnknown | Self::NotShareable => true,
            Self::Cards { asked, total, .. }
            | Self::ShareCards { asked, total, .. }
            | Self::Seats { asked, total, .. }
            | Self::Slices { asked, total, .. } => asked > total,
            Self::Memory { asked, largest, .. } => asked > largest,
            Self::Numa { policy: TopologyManagerPolicy::SingleNumaNode, asked, nodes, .. } => {
                nodes.iter().all(|node| *asked > node.total)
            }
            Self::Compute { .. } | Self::Numa { .. } | Self::Combination => false,
        }
    }
}

/// What a share lacks on `cards`, if anything.
pub(super) fn share_shortage(memory: ShareMemory, compute: Percent, count: u32, cards: &[&Card]) -> Option<Shortage> {
    let shareable: Vec<&&Card> = cards.iter().filter(|c| c.spec().partitioning == Partitioning::OnDemand).collect();
    if shareable.is_empty() {
        return Some(Shortage::NotShareable);
    }
    let known: Vec<(&Card, Mib)> = shareable.iter().filter_map(|c| Some((**c, c.spec().memory?))).collect();
    let Some(largest) = known.iter().map(|(_, total)| *total).max() else {
        return Some(Shortage::MemoryUnknown);
    };
    let has_memory = |(card, total): &&(&Card, Mib)| card.room().shareable && memory.on(*total) <= card.room().memory;
    let with_memory: Vec<&(&Card, Mib)> = known.iter().filter(has_memory).collect();
    if with_memory.is_empty() {
        // Nearest: the card with the least missing, then the lowest index.
        let missing = |(card, total): &&(&Card, Mib)| {
            let short = memory.on(*total).saturating_sub(card.room().memory);
            (card.room().closed.is_some(), short, card.spec().index)
        };
        return known.iter().min_by_key(missing).map(|(card, total)| Shortage::Memory {
            card: card.spec().index,
            asked: memory.on(*total),
            free: card.room().memory,
            largest,
            barred: Barred::of(std::iter::once(*card)),
        });
    }
    let fitting = with_memory.iter().filter(|(card, _)| compute <= card.room().compute).count();
    if fitting == 0 {
        let nearest =
            with_memory.iter().min_by_key(|(card, _)| (std::cmp::Reverse(card.room().compute), card.spec().index));
        return nearest.map(|(card, _)| Shortage::Compute {
            card: card.spec().index,
            asked: compute,
            free: card.room().compute,
        });
    }
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    let total = u32::try_from(known.len()).unwrap_or(u32::MAX);
    (fitting < count).then_some(Shortage::ShareCards { asked: count, fitting, total })
}
