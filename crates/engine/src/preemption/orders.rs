//! In which order victims are put back: what comes first is most likely to stay.

use std::cmp::Reverse;

use crate::model::{GpuShape, MilliGpu, NodeId, PodId, Timestamp};
use crate::state::{Class, State};

/// A pod that may have to go, or pods that go as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Victim {
    /// The pods, on whatever nodes.
    pub pods: Vec<PodId>,
    /// The one on the node in question that names it.
    pub pod: PodId,
    pub priority: i32,
    /// When it started; one that has not yet counts as youngest.
    pub started: Timestamp,
    /// Whether it goes anyway.
    pub leaving: bool,
    /// Whether the API server would not let one of them go.
    pub kept: bool,
    /// Whether a disruption budget would be broken.
    pub violates: bool,
}

impl Victim {
    /// What speaks against its going, whatever its priority: more is stronger.
    fn protection(&self) -> (bool, bool) {
        (self.kept, self.violates)
    }

    /// More important ones first: higher priority, then more pods, then older. Those that go anyway come last.
    fn importance(&self) -> (bool, Reverse<i32>, Reverse<usize>, Timestamp, PodId) {
        (self.leaving, Reverse(self.priority), Reverse(self.pods.len()), self.started, self.pod)
    }
}

/// Most important first.
pub(super) fn by_importance(victims: &mut [Victim]) {
    victims.sort_by_key(Victim::importance);
}

/// The orders to try. The first is kube-scheduler's: those that break a budget, then the rest, each by importance; before
/// them those that would not go. For a class that asks for GPUs there are more: one for each card, in which those that hold
/// nothing of it come first, so that this card is what gets free; and one in which cards that are cheap to free are freed.
/// Priority goes before all of it: within a card small holders come back first, since a few large ones may do.
pub(super) fn orders(state: &State, class: &Class, node: NodeId, victims: &[Victim]) -> Vec<Vec<Victim>> {
    let mut first = victims.to_vec();
    first.sort_by_key(|v| (Reverse(v.protection()), v.importance()));
    let mut orders = vec![first];
    let Some(ledger) = state.node(node).map(|n| n.ledger()) else { return orders };
    if class.spec.gpu.is_none() {
        return orders;
    }
    let held = |victim: &Victim, card: usize| -> Option<MilliGpu> {
        let card = ledger.cards().get(card)?;
        let holdings = card.holdings().iter().filter(|h| victim.pods.contains(&h.pod));
        holdings.map(|h| card.part_of(h)).reduce(|sum, part| sum + part)
    };
    let cards = ledger.cards().len();
    if let GpuShape::Share { .. } = class.spec.shape {
        for card in 0..cards {
            if !victims.iter().any(|v| held(v, card).is_some()) {
                continue;
            }
            let mut order = victims.to_vec();
            order.sort_by_key(|v| (held(v, card).is_some(), Reverse(v.protection()), v.importance()));
            let mut fewest = order.clone();
            fewest.sort_by_key(|v| {
                (
                    held(v, card).is_some(),
                    v.leaving,
                    Reverse(v.protection()),
                    Reverse(v.priority),
                    held(v, card),
                    v.started,
                    v.pod,
                )
            });
            orders.extend([order, fewest]);
        }
    }
    // What each card costs to free: the priorities and the number of those that hold it.
    let cost = |card: usize| {
        let holders = victims.iter().filter(|v| !v.leaving && held(v, card).is_some());
        (holders.clone().map(Victim::protection).max(), holders.clone().map(|v| v.priority).max(), holders.count())
    };
    let costs: Vec<_> = (0..cards).map(cost).collect();
    let dearest = |victim: &Victim| (0..cards).filter(|c| held(victim, *c).is_some()).map(|c| (costs[c], c)).max();
    let mut cheap = victims.to_vec();
    cheap.sort_by_key(|v| {
        let dearest = dearest(v);
        (v.leaving, dearest.is_some(), Reverse(dearest), Reverse(v.protection()), v.importance())
    });
    orders.push(cheap);
    orders
}
