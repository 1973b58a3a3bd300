//! Devices of pods that were bound without a record: guessed, and guessed again when facts contradict.

use std::sync::Arc;

use crate::contract::Notice;
use crate::ledger::{Card, CardChoice, CardGrant, Closed, HoldKind, Placement, place};
use crate::model::{Allocation, Demand, GpuRequest, NodeId, Percent, PodId};
use crate::state::{Change, State};

impl State {
    /// Gives every pod on the node that has no record a guess that fits what is known: the cards that the
    /// agent saw it on, else the first that fit, else (facts are facts) the emptiest. A guess yields to a
    /// record, whichever came first, so the order of events does not matter. `O(guessed pods)`, and only
    /// where a guess is missing or disturbed.
    pub(super) fn settle_devices(&mut self, node: NodeId) {
        let Some(state) = self.nodes.get(node.index()) else { return };
        let mut guessed: Vec<PodId> = state
            .pods()
            .iter()
            .copied()
            .filter(|p| self.pod(*p).and_then(|p| p.placed.as_ref()).is_some_and(|placed| placed.guessed))
            .collect();
        let cards = state.ledger().cards();
        let disturbed = cards.iter().any(|c| {
            let trouble = matches!(c.room().closed, Some(Closed::Overcommitted(_)));
            trouble && c.holdings().iter().any(|h| guessed.contains(&h.pod))
        });
        let missing = guessed.iter().any(|p| !state.ledger().holds(*p)) && cards.iter().any(|c| c.present());
        if !disturbed && !missing {
            return;
        }
        guessed.sort_by_key(|p| self.pod(*p).map(|p| (p.created_at, p.uid.clone())));
        for pod in &guessed {
            self.change_node(node, Change::Relaxes, |n| n.ledger_mut().take_back(*pod));
        }
        for pod in guessed {
            self.guess(pod, node);
        }
    }

    fn guess(&mut self, pod: PodId, node: NodeId) {
        let entry = self.pods.at(pod.index());
        let (uid, name) = (entry.uid.clone(), entry.name.clone());
        let class = self.class(entry.class).clone();
        let request = &class.spec.gpu;
        let state = self.nodes.at(node.index());
        let seen = |card: &Card| {
            state.report().is_some_and(|r| {
                let device = r.devices.iter().find(|d| *d.card.uuid == **card.uuid());
                device.is_some_and(|d| d.holders.iter().any(|h| h.pod == uid))
            })
        };
        let wanted = self.models.matching(class.spec.pattern);
        let matching = |card: &Card| wanted.contains(card.model()) && pinned(request, card);
        let ledger = state.ledger();
        let first_fit = || {
            place(request, ledger, seen, CardChoice::SmallestRemainder)
                .or_else(|_| place(request, ledger, matching, CardChoice::SmallestRemainder))
                .or_else(|_| place(request, ledger, |_| true, CardChoice::SmallestRemainder))
        };
        let placement = first_fit().unwrap_or_else(|_| forced(request, ledger.cards()));
        let peaks = placement.peaks(request);
        let allocation = super::record(&placement, request, ledger);
        let uuids: Vec<Arc<str>> = uuids(&allocation);
        let node_name = state.name().clone();
        self.change_node(node, Change::Takes, |n| n.ledger_mut().observe(pod, &uid, &peaks));
        if let Some(placed) = &mut self.pods.at_mut(pod.index()).placed {
            if placed.allocation == allocation {
                return;
            }
            placed.allocation = allocation;
        }
        self.notices.push(Notice::DevicesAssumed { pod: name, node: node_name, uuids });
    }
}

/// Whether the request's UUIDs let the card through.
pub(crate) fn pinned(request: &GpuRequest, card: &Card) -> bool {
    let part = |uuid: &String| card.partitions().iter().any(|p| p.uuid == *uuid);
    request.uuids.is_empty() || request.uuids.iter().any(|u| **u == **card.uuid() || part(u))
}

fn uuids(allocation: &Allocation) -> Vec<Arc<str>> {
    let devices = allocation.containers.iter().flat_map(|c| &c.devices);
    devices.map(|d| d.mig.as_deref().unwrap_or(&d.uuid).into()).collect()
}

/// What somebody bound although it does not fit is somewhere all the same: on the emptiest cards.
fn forced(request: &GpuRequest, cards: &[Card]) -> Placement {
    let mut order: Vec<u16> = (0_u16..).zip(cards).filter(|(_, c)| c.present()).map(|(at, _)| at).collect();
    order.sort_by_key(|at| (cards[usize::from(*at)].holdings().len(), *at));
    let mut placement = Placement::default();
    for container in &request.containers {
        let mut placed = crate::ledger::ContainerPlacement::default();
        for demand in &container.demands {
            let (count, kind) = match demand {
                Demand::Cards { count } => (*count, HoldKind::Whole),
                Demand::Share { count, .. } => (*count, HoldKind::Share),
                Demand::Seats { count } => (*count, HoldKind::Seat),
                Demand::Slices { count, .. } => (*count, HoldKind::Slice),
            };
            for at in order.iter().copied().take(count as usize) {
                let card = &cards[usize::from(at)];
                let total = card.spec().memory.unwrap_or_default();
                let (kind, memory, compute) = match demand {
                    Demand::Share { memory, compute, .. } => (kind, memory.on(total), *compute),
                    _ if kind == HoldKind::Whole && card.seats() > 0 => (HoldKind::Seat, total, Percent(0)),
                    _ => (kind, total, Percent::ALL),
                };
                let slice = (kind == HoldKind::Slice).then_some(0);
                placed.grants.push(CardGrant { card: at, kind, memory, compute, slice });
            }
        }
        placement.containers.push(placed);
    }
    placement
}
