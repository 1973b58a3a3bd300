//! Whether a node has the GPUs: memory and compute of single cards, whole cards, seats, slices.

use crate::framework::find_cards;
use crate::framework::{Filter, PluginName, PreFilter, Reason, Selection, Verdict};
use crate::ledger::CardChoice;
use crate::model::{Demand, GpuShape};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `GpuFit`.
#[derive(Debug, Clone, Copy)]
pub struct GpuFit;

impl PreFilter for GpuFit {
    fn name(&self) -> PluginName {
        "GpuFit"
    }
    /// A request that makes no sense fits nowhere.
    fn pre_filter(&self, _state: &State, class: &Class) -> Selection {
        class.spec.error.clone().map_or(Selection::All, |error| Selection::Reject(Reason::Request(error)))
    }
}

impl Filter for GpuFit {
    fn name(&self) -> PluginName {
        "GpuFit"
    }
    /// `O(cards)` for the usual pod: one container, one demand.
    fn filter(&self, state: &State, class: &Class, node: &NodeState, facts: &NodeFacts) -> Verdict {
        if class.spec.shape == GpuShape::None && class.spec.gpu.is_none() {
            return Verdict::Pass;
        }
        if facts.gpus_withdrawn() {
            return Verdict::unresolvable(Reason::GpusWithdrawn);
        }
        let asks_share =
            class.spec.gpu.containers.iter().flat_map(|c| &c.demands).any(|d| matches!(d, Demand::Share { .. }));
        if asks_share && facts.offers_seats() && !class.spec.has_seats {
            return Verdict::unresolvable(Reason::SeatMissing);
        }
        match find_cards(state, class, node, CardChoice::SmallestRemainder) {
            Ok(_) => Verdict::Pass,
            Err(shortage) if shortage.is_permanent() => Verdict::unresolvable(Reason::Gpu(shortage)),
            Err(shortage) => Verdict::unschedulable(Reason::Gpu(shortage)),
        }
    }
}
