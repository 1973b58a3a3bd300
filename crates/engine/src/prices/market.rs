//! What is left of the cluster, by groups: kept up node by node.

use crate::model::{NodeId, mul_div};
use crate::prices::Learned;
use crate::state::{GroupId, State};

/// No node counts with more CPU than this (a billion cores): sums over all nodes stay far from overflow.
const MOST_CPU: i64 = 1 << 40;

/// One node's part of its group's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct Part {
    group: Option<GroupId>,
    /// Worth of its idle cards, in millionths of a card.
    free: i64,
    /// CPU that its idle GPUs will not need, in milli-cores.
    spare_cpu: i64,
    /// CPU that it has.
    cpu: i64,
}

/// Sums over a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Sums {
    pub free: i64,
    pub spare_cpu: i64,
    pub cpu: i64,
}

/// Sums over all groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Market {
    parts: Vec<Part>,
    sums: Vec<Sums>,
}

impl Market {
    /// From scratch. `O(nodes * cards)`.
    pub fn of(state: &State, learned: &Learned) -> Self {
        let mut market = Self::default();
        for node in state.nodes() {
            market.update(state, learned, node.id());
        }
        market
    }

    /// Takes one node's present state for its old one. `O(cards)`.
    pub fn update(&mut self, state: &State, learned: &Learned, id: NodeId) {
        let part = state.node(id).map_or_else(Part::default, |node| {
            let room = node.headroom();
            let rate = learned.sure_cpu_per_gpu().cast_unsigned();
            let needed = mul_div(rate, u64::from(room.idle().0), super::ONE.cast_unsigned());
            Part {
                group: node.group(),
                free: node.ledger().cards().iter().zip(&room.cards).map(|(card, room)| learned.worth(card, room)).sum(),
                spare_cpu: room.cpu.clamp(0, MOST_CPU).cast_unsigned().saturating_sub(needed).cast_signed(),
                cpu: node.facts().map_or(0, |f| f.allocatable().cpu).clamp(0, MOST_CPU),
            }
        });
        if self.parts.len() <= id.index() {
            self.parts.resize(id.index() + 1, Part::default());
        }
        let old = std::mem::replace(&mut self.parts[id.index()], part);
        self.add(old, -1);
        self.add(part, 1);
    }

    fn add(&mut self, part: Part, sign: i64) {
        let Some(group) = part.group else { return };
        if self.sums.len() <= group.index() {
            self.sums.resize(group.index() + 1, Sums::default());
        }
        let sums = &mut self.sums[group.index()];
        sums.free += sign * part.free;
        sums.spare_cpu += sign * part.spare_cpu;
        sums.cpu += sign * part.cpu;
    }

    pub fn sums(&self, group: GroupId) -> Sums {
        self.sums.get(group.index()).copied().unwrap_or_default()
    }

    /// Worth of all idle cards, in millionths of a card.
    pub fn free(&self) -> i64 {
        self.sums.iter().map(|s| s.free).sum()
    }
}
