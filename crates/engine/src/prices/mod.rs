//! Shadow prices: what a piece of the cluster is worth for the requests that come.
//!
//! An idle card is worth what could still be filled into it; CPU is worth the GPU that would be stranded
//! without it; a kind of node is worth more the fewer there are for those who can use no other. All of it
//! is learnt from the pods that arrived, and is part of the engine's state: the same arrivals give the
//! same prices. Integers throughout, in millionths.

mod claims;
mod cutting_stock;
mod device_values;
mod learned;
mod market;
mod plane_values;

pub use claims::Claims;
pub use device_values::DeviceValues;
pub use learned::Learned;
pub use plane_values::PlaneValues;
pub(crate) use plane_values::free_of;

use crate::model::NodeId;
use crate::state::{GroupId, Schedule, State};
use market::Market;

/// One, in the unit of all prices.
pub const ONE: i64 = 1_000_000;

/// Decisions between two looks at what is left of the cluster.
const REFRESH_EVERY: u64 = 16;

/// Prices, and what they are made of.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub struct Prices {
    enabled: bool,
    schedule: Schedule,
    learned: Learned,
    /// Changes whenever `learned` does.
    version: u64,
    /// Groups that there were when it was learnt.
    groups: usize,
    market: Market,
    claims: Claims,
    decisions: u64,
}

impl Prices {
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
    }
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// What was learnt from arrivals.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }
    /// Changes whenever [`Prices::learned`] does.
    pub fn version(&self) -> u64 {
        self.version
    }
    /// How much of a group those claim who can use little else, in millionths (1 is its fair part).
    pub fn claim(&self, group: GroupId) -> i64 {
        self.claims.on(group)
    }
    /// How much of a group's CPU its idle GPUs need, in millionths of what it has.
    pub fn cpu_scarcity(&self, group: GroupId) -> i64 {
        self.claims.cpu_scarcity(group)
    }

    /// A pod arrived. Learns again when arrivals have grown by a quarter, or new kinds of nodes came.
    pub(crate) fn arrival(&mut self, state: &State) {
        if !self.enabled {
            return;
        }
        let new_groups = self.groups != state.groups().len();
        if self.schedule.is_due(state.mix().arrived()) || new_groups {
            self.learn(state);
        }
    }

    /// `O(shapes * groups + sizes^3)`, and `O(nodes)` where something changed.
    fn learn(&mut self, state: &State) {
        self.groups = state.groups().len();
        let fresh = Learned::from(state, &self.learned);
        if fresh.differs_from(&self.learned, state.mix().arrived()) {
            self.learned = fresh;
            self.version += 1;
            self.market = Market::of(state, &self.learned);
        }
        self.claims = Claims::of(state, &self.learned, &self.market);
    }

    /// A node changed. `O(cards)`.
    pub(crate) fn update_node(&mut self, state: &State, node: NodeId) {
        self.market.update(state, &self.learned, node);
    }

    /// A decision was made.
    pub(crate) fn decision(&mut self, state: &State) {
        if !self.enabled {
            return;
        }
        self.decisions += 1;
        if self.decisions.is_multiple_of(REFRESH_EVERY) {
            self.claims = Claims::of(state, &self.learned, &self.market);
        }
    }
}
