//! Two pods on one card, because a leader that was deposed did not know it yet.
//!
//! A replica that stops for longer than its lease and goes on can still have a bind on its way. The API server
//! takes it: a bind has no fencing token. Its record tells what it holds, so the card counts as overcommitted
//! at once, and of the two the pod that was bound later goes.

use crate::contract::{Action, EvictReason};
use crate::engine::Engine;
use crate::ledger::{Card, Overcommit};
use crate::model::PodId;
use crate::state::{Placed, Stage};

impl Engine {
    /// A bind that is not ours was seen, of a pod that we had in our queue: if a card that it
    /// holds is held twice now, the pod goes. Where the other holder's bind is still on its way, that one
    /// would be the later: whether it goes is settled when it arrives. `O(cards * holders)`.
    pub(super) fn settle_late_bind(&mut self, pod: PodId, node: &str) {
        let Some(state) = self.state.node_named(node) else { return };
        let double = state.ledger().cards().iter().find_map(|card| {
            let trouble = double(card).filter(|_| holds(card, pod) && self.recorded(card))?;
            Some((card, trouble))
        });
        let Some((card, trouble)) = double else { return };
        if card.holdings().iter().all(|h| h.pod == pod || self.placed(h.pod).is_some_and(|p| p.stage == Stage::Bound)) {
            let uuid = card.uuid().clone();
            self.evict_double(pod, &uuid, &trouble);
        } else {
            self.late.insert(pod);
        }
    }

    /// A bind of ours took effect: if somebody else's came first, onto the same card, ours goes. `O(late pods)`, and
    /// there are none unless a leader was deposed in the middle of a bind.
    pub(super) fn settle_own_bind(&mut self, pod: PodId) {
        if self.late.is_empty() {
            return;
        }
        let Some(node) = self.placed(pod).and_then(|p| self.state.node(p.node)) else { return };
        let late = |card: &Card| self.late.iter().any(|late| holds(card, *late));
        let double = node.ledger().cards().iter().find_map(|card| {
            let trouble = double(card).filter(|_| holds(card, pod) && late(card) && self.recorded(card))?;
            Some((card.uuid().clone(), trouble))
        });
        if let Some((uuid, trouble)) = double {
            self.evict_double(pod, &uuid, &trouble);
        }
    }

    fn placed(&self, pod: PodId) -> Option<&Placed> {
        self.state.pod(pod).and_then(|p| p.placed.as_ref())
    }

    /// Whether every holder of a card has a record: a guess about another scheduler's pod is no reason to take
    /// anything from anybody.
    fn recorded(&self, card: &Card) -> bool {
        card.holdings().iter().all(|h| self.placed(h.pod).is_some_and(|p| !p.guessed))
    }

    fn evict_double(&mut self, pod: PodId, uuid: &str, trouble: &Overcommit) {
        let Some(entry) = self.state.pod(pod) else { return };
        let Some(node) = entry.placed.as_ref().and_then(|p| self.state.node(p.node)) else { return };
        let message = format!(
            "bound to node {} while another replica of the scheduler gave GPU {uuid} away: {trouble}",
            node.name()
        );
        self.outbox.push_back(Action::Evict {
            uid: entry.uid.clone(),
            pod: entry.name.clone(),
            node: node.name().clone(),
            reason: EvictReason::GpuOvercommitted,
            message,
            preemptor: None,
        });
    }
}

/// What is wrong with a card because two pods hold it, and not because it is gone or was divided anew.
fn double(card: &Card) -> Option<Overcommit> {
    let trouble = card.overcommit().filter(|_| card.holdings().len() > 1)?;
    match trouble {
        Overcommit::Gone | Overcommit::WrongMode(_) => None,
        Overcommit::Mixed { .. }
        | Overcommit::Memory { .. }
        | Overcommit::Compute { .. }
        | Overcommit::Seats { .. }
        | Overcommit::SliceTwice { .. } => Some(trouble),
    }
}

fn holds(card: &Card, pod: PodId) -> bool {
    card.holdings().iter().any(|h| h.pod == pod)
}
