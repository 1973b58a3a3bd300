//! Which devices pods hold by the facts: by their records, and where there is none, by a guess.

use std::sync::Arc;

use crate::contract::Notice;
use crate::ledger::{Card, CardChoice, CardGrant, Closed, HoldKind, Placement, at_worst, place};
use crate::model::{Allocation, CardSpec, Demand, GpuRequest, NodeId, Percent, PodId, PodUid};
use crate::state::{NodeState, State};

impl State {
    /// Takes a new list of cards and reads all records of the node against it again: a UUID may have moved to
    /// another index, or got a card of its own. `O(cards * holders)`, nothing where the list is the old one.
    pub(super) fn take_inventory(&mut self, node: &mut NodeState, cards: &[CardSpec]) {
        if node.ledger().describes(cards) {
            return;
        }
        node.set_inventory(cards, &mut self.models);
        for pod in node.pods().to_vec() {
            self.hold(node, pod);
        }
        node.ledger_mut().sweep();
    }

    /// Writes down what a placed pod holds by its record (or by its last guess).
    pub(super) fn hold(&mut self, node: &mut NodeState, pod: PodId) {
        let entry = self.pods.at(pod.index());
        let Some(placed) = &entry.placed else { return };
        if placed.allocation.containers.is_empty() {
            return;
        }
        let kind_of = |name: &str| entry.containers.iter().find(|(n, _)| **n == *name).map(|(_, kind)| *kind);
        let name = node.name().clone();
        let peaks = node.ledger_mut().resolve(&name, &placed.allocation, kind_of, &mut self.models);
        node.ledger_mut().observe(pod, &entry.uid, &peaks);
    }

    /// Holds a record against what its pod asks for: what is to be charged, if it says anything; and the record itself,
    /// if that is something else.
    pub(super) fn doubt(
        &mut self,
        pod: PodId,
        node: NodeId,
        record: &Allocation,
        request: &GpuRequest,
    ) -> (Option<Allocation>, Option<Box<Allocation>>) {
        let state = self.nodes.at(node.index());
        let (charged, doubts) = at_worst(record, request);
        if doubts.is_empty() {
            return (Some(record.clone()), None);
        }
        let (node, pod) = (state.name().clone(), self.pods.at(pod.index()).name.clone());
        let why = doubts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.notices.push(Notice::RecordDoubted { pod, node, why });
        (charged, Some(Box::new(record.clone())))
    }

    /// Gives every pod on the node that has no record a guess that fits what is known: the cards that the
    /// agent saw it on, else the first that fit, else (facts are facts) the emptiest. A guess yields to a
    /// record and to what the agent sees, whichever came first. Returns the new guesses. `O(guessed pods)`, and
    /// only where a guess is missing, disturbed or contradicted.
    pub(super) fn settle(&self, node: &mut NodeState) -> Vec<(PodId, Allocation)> {
        let is_guess = |p: &PodId| self.pod(*p).and_then(|p| p.placed.as_ref()).is_some_and(|placed| placed.guessed);
        let mut guessed: Vec<PodId> = node.pods().iter().copied().filter(is_guess).collect();
        if guessed.is_empty() || !self.needs_settling(node, &guessed) {
            return Vec::new();
        }
        guessed.sort_by_key(|p| self.pod(*p).map(|p| (p.created_at, p.uid.clone())));
        for pod in &guessed {
            // What is measured of it must not keep it from its own card.
            let uid = self.pods.at(pod.index()).uid.clone();
            node.ledger_mut().release(*pod, &uid);
        }
        // Those that the agent saw go first: where they are is known.
        let (seen, unseen): (Vec<PodId>, Vec<PodId>) = guessed.into_iter().partition(|p| self.is_seen(node, *p));
        seen.into_iter().chain(unseen).map(|pod| (pod, self.guess(node, pod))).collect()
    }

    fn needs_settling(&self, node: &NodeState, guessed: &[PodId]) -> bool {
        let cards = node.ledger().cards();
        let disturbed = cards.iter().any(|c| {
            let trouble = matches!(c.room().closed, Some(Closed::Overcommitted(_)));
            trouble && c.holdings().iter().any(|h| guessed.contains(&h.pod))
        });
        let missing = guessed.iter().any(|p| !node.ledger().holds(*p)) && cards.iter().any(Card::present);
        let contradicted = guessed.iter().any(|pod| {
            let uid = &self.pods.at(pod.index()).uid;
            let holds = |c: &&Card| c.holdings().iter().any(|h| h.pod == *pod);
            // Processes may not have started everywhere, so cards that it is not seen on prove nothing.
            cards.iter().any(|c| sees(node, c, uid)) && cards.iter().filter(|c| sees(node, c, uid)).any(|c| !holds(&c))
        });
        disturbed || missing || contradicted
    }

    fn is_seen(&self, node: &NodeState, pod: PodId) -> bool {
        let uid = &self.pods.at(pod.index()).uid;
        node.ledger().cards().iter().any(|c| sees(node, c, uid))
    }

    fn guess(&self, node: &mut NodeState, pod: PodId) -> Allocation {
        let entry = self.pods.at(pod.index());
        let class = self.class(entry.class);
        let request = &class.spec.gpu;
        let wanted = self.models.matching(class.spec.pattern);
        let seen = |card: &Card| sees(node, card, &entry.uid);
        let matching = |card: &Card| wanted.contains(card.model()) && pinned(request, card);
        let ledger = node.ledger();
        let aligned = |eligible: &dyn Fn(&Card) -> bool, topology| {
            place(request, ledger, eligible, CardChoice::SmallestRemainder, topology)
        };
        let fits = |eligible: &dyn Fn(&Card) -> bool| aligned(eligible, None);
        let placement = if self.is_seen(node, pod) {
            fits(&seen).unwrap_or_else(|_| forced(request, ledger.cards(), seen))
        } else {
            // Whoever bound it, kubelet chose the NUMA nodes.
            let as_kubelet = aligned(&matching, node.topology_manager());
            let somewhere = as_kubelet.or_else(|_| fits(&matching)).or_else(|_| fits(&|_| true));
            somewhere.unwrap_or_else(|_| forced(request, ledger.cards(), |_| false))
        };
        let allocation = super::pod_changes::record(&placement, request, ledger);
        let peaks = placement.peaks(request);
        node.ledger_mut().observe(pod, &entry.uid, &peaks);
        node.measure_pod(&entry.uid);
        allocation
    }

    /// Keeps a new guess, and says so.
    pub(super) fn take_guess(&mut self, pod: PodId, node: NodeId, allocation: Allocation) {
        let entry = self.pods.at_mut(pod.index());
        let name = entry.name.clone();
        let Some(placed) = entry.placed.as_mut().filter(|p| p.allocation != allocation) else { return };
        let uuids = uuids(&allocation);
        placed.allocation = allocation;
        let node = self.nodes.at(node.index()).name().clone();
        self.notices.push(Notice::DevicesAssumed { pod: name, node, uuids });
    }
}

/// Whether the agent saw processes of the pod on the card.
fn sees(node: &NodeState, card: &Card, uid: &PodUid) -> bool {
    node.report().is_some_and(|r| {
        let device = r.devices.iter().find(|d| *d.card.uuid == **card.uuid());
        device.is_some_and(|d| d.holders.iter().any(|h| h.pod == *uid))
    })
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

/// What somebody bound although it does not fit is somewhere all the same: on the cards it was seen on, then
/// on the emptiest.
fn forced(request: &GpuRequest, cards: &[Card], seen: impl Fn(&Card) -> bool) -> Placement {
    let mut order: Vec<u16> = (0_u16..).zip(cards).filter(|(_, c)| c.present()).map(|(at, _)| at).collect();
    order.sort_by_key(|at| {
        let card = &cards[usize::from(*at)];
        (!seen(card), card.holdings().len(), *at)
    });
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
