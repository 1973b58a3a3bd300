//! What is left of a node, in the few numbers that policies look at.

use smallvec::SmallVec;

use crate::ledger::{CardPeak, HoldKind, NodeLedger};
use crate::model::{Mib, MilliGpu, ModelId};

/// One card, as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct CardRoom {
    /// Its model.
    pub model: ModelId,
    /// Its memory, 0 where it is not known.
    pub total: Mib,
    /// What is idle of it: 0 for a closed card.
    pub idle: MilliGpu,
    /// Memory that is free for shares, for policies that look at memory use.
    pub free: Mib,
}

/// A node's free CPU, memory and cards. Before a placement it is the node's own; after it, a copy with
/// the placement taken away.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Headroom {
    /// Free milli-cores; negative on an overcommitted node.
    pub cpu: i64,
    /// Free bytes of memory.
    pub memory: i64,
    /// The cards, in the node's order.
    pub cards: SmallVec<[CardRoom; 8]>,
}

impl Headroom {
    /// What is left after `peaks` are taken from the cards of `ledger`, and CPU and memory beside them.
    pub fn after(&self, ledger: &NodeLedger, peaks: &[CardPeak], cpu: i64, memory: i64) -> Self {
        let mut left = self.clone();
        left.cpu = left.cpu.saturating_sub(cpu);
        left.memory = left.memory.saturating_sub(memory);
        for peak in peaks {
            let card = &ledger.cards()[usize::from(peak.card)];
            let room = &mut left.cards[usize::from(peak.card)];
            room.idle = card.idle_after(peak);
            room.free = match peak.kind {
                HoldKind::Whole => Mib(0),
                HoldKind::Share => room.free.saturating_sub(peak.memory),
                HoldKind::Seat | HoldKind::Slice => room.free,
            };
        }
        left
    }

    /// Idle GPU in thousandths of a card.
    pub fn idle(&self) -> MilliGpu {
        self.cards.iter().map(|c| c.idle).sum()
    }
}
