//! Two pods on one card, because a leader that was deposed did not know it yet.
//!
//! A replica that stops for longer than its lease and goes on can still have a bind on its way. The API server
//! takes it: a bind has no fencing token. Its record tells what it holds, so the card counts as overcommitted
//! at once, and of the two the pod that was bound late goes.

use std::sync::Arc;

use crate::contract::{Action, EvictReason};
use crate::engine::Engine;
use crate::ledger::Card;
use crate::model::{Allocation, PodId};

impl Engine {
    /// UUIDs of a node's overcommitted cards. `O(cards)`.
    pub(super) fn in_trouble(&self, node: &str) -> Vec<Arc<str>> {
        let cards = self.state.node_named(node).map(|n| n.ledger().cards()).unwrap_or_default();
        cards.iter().filter(|c| c.overcommit().is_some()).map(|c| c.uuid().clone()).collect()
    }

    /// Evicts a pod that was just seen bound if a card of its record was in order before and is overcommitted now.
    ///
    /// Only where every holder of that card has a record: a guess about another scheduler's pod is no reason to
    /// take anything from anybody. `O(cards * holders)`.
    pub(super) fn evict_if_double(&mut self, pod: PodId, record: &Allocation, node: &str, before: &[Arc<str>]) {
        let Some(entry) = self.state.pod(pod) else { return };
        let recorded = |card: &Card| {
            card.holdings()
                .iter()
                .all(|h| self.state.pod(h.pod).and_then(|p| p.placed.as_ref()).is_some_and(|p| !p.guessed))
        };
        let named = |card: &Card| record.containers.iter().flat_map(|c| &c.devices).any(|d| *d.uuid == **card.uuid());
        let Some(state) = self.state.node_named(node) else { return };
        let double = state.ledger().cards().iter().find_map(|card| {
            let trouble = card.overcommit()?;
            (named(card) && !before.contains(card.uuid()) && recorded(card)).then_some((card, trouble))
        });
        let Some((card, trouble)) = double else { return };
        let message = format!(
            "bound by a deposed replica of the scheduler onto GPU {} of node {node}, which others hold: {trouble}",
            card.uuid()
        );
        self.outbox.push_back(Action::Evict {
            uid: entry.uid.clone(),
            pod: entry.name.clone(),
            node: state.name().clone(),
            reason: EvictReason::GpuOvercommitted,
            message,
        });
    }
}
