//! How nodes change: by what their objects and reports say.

use std::sync::Arc;

use crate::ledger::NodeLedger;
use crate::model::{DeviceReport, Node, NodeId, PodUid};
use crate::state::{Change, Disturbance, Largest, NodeFacts, NodeState, State};

impl State {
    /// A node appeared or changed.
    pub(crate) fn apply_node(&mut self, node: &Node) {
        let id = self.node_slot(&node.name);
        let facts = NodeFacts::compile(node, &mut self.symbols);
        let known = self.nodes.at(id.index()).facts();
        if known.is_none_or(|known| !known.is_same_to_relations(&facts)) {
            self.disturb();
        }
        self.count_images(id, Some(&facts));
        let mut updated = self.nodes.at(id.index()).clone();
        let cards = merged(facts.cards(), updated.report().map(|r| &**r));
        updated.set_facts(Some(Arc::new(facts)));
        self.take_inventory(&mut updated, &cards);
        self.commit(id, Change::Relaxes, updated);
    }

    /// A node is gone; it stays as a ghost while pods are on it or a report tells of it.
    pub(crate) fn delete_node(&mut self, name: &str) {
        let Some(id) = self.node_by_name.get(name).copied() else { return };
        self.disturb();
        self.count_images(id, None);
        // Pods on a node that is gone use their claims no more, as kube-scheduler has it.
        for pod in self.nodes.at(id.index()).voluminous() {
            if let Some(volumes) = &self.classes.get(self.pods.at(pod.index()).class).spec.volumes {
                self.disturbances.push(Disturbance::Shared(volumes.clone()));
            }
        }
        let nominated: Vec<_> = self.nominated_on(id).collect();
        nominated.into_iter().for_each(|pod| self.nominate(pod, None));
        self.change_node(id, Change::Takes, |n| n.set_facts(None));
        self.measure(id);
        self.bury(id);
    }

    /// An agent's report. `fresh` is false for one that is older than its lease: its cards count, its
    /// measurements do not.
    pub(crate) fn apply_report(&mut self, report: &DeviceReport, fresh: bool) -> NodeId {
        let id = self.node_slot(&report.node);
        let mut updated = self.nodes.at(id.index()).clone();
        let cards = merged(updated.facts().map_or(&[], NodeFacts::cards), Some(report));
        updated.set_report(Some(Arc::new(report.clone())));
        self.take_inventory(&mut updated, &cards);
        if fresh {
            updated.measure(|uid| self.is_on(uid, id));
        } else {
            updated.stop_measuring();
        }
        self.commit(id, Change::Relaxes, updated);
        id
    }

    /// A node's report is gone, or (with `keep_cards`) only too old for its measurements.
    pub(crate) fn drop_report(&mut self, name: &str, keep_cards: bool) {
        let Some(id) = self.node_by_name.get(name).copied() else { return };
        let mut updated = self.nodes.at(id.index()).clone();
        updated.stop_measuring();
        if !keep_cards {
            let cards = updated.facts().map_or(&[][..], NodeFacts::cards).to_vec();
            updated.set_report(None);
            self.take_inventory(&mut updated, &cards);
        }
        self.commit(id, Change::Relaxes, updated);
        self.bury(id);
    }

    fn is_on(&self, uid: &PodUid, node: NodeId) -> bool {
        self.pod_of(uid).and_then(|p| p.placed.as_ref()).is_some_and(|placed| placed.node == node)
    }

    /// The slot of a node, a ghost's if nobody has described it yet.
    pub(crate) fn node_slot(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.node_by_name.get(name) {
            return *id;
        }
        let symbol = self.symbols.intern(name);
        let ledger = NodeLedger::new(self.foreign_tolerance);
        let at = self.nodes.insert_with(|at| NodeState::ghost(NodeId::from_index(at), name.into(), symbol, ledger));
        let id = NodeId::from_index(at);
        if let Some(generation) = self.tombstones.remove(&id) {
            self.changed.remove(&generation);
        }
        self.node_by_name.insert(name.into(), id);
        id
    }

    /// Frees the slot of a ghost that nothing refers to.
    pub(super) fn bury(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id.index()) else { return };
        let kept = self.nominated_on(id).next().is_some();
        if node.facts().is_none() && node.pods().is_empty() && node.report().is_none() && !kept {
            self.relaxed.remove(&node.relaxed());
            self.tombstones.insert(id, node.generation());
            if let Some(node) = self.nodes.remove(id.index()) {
                self.node_by_name.remove(&**node.name());
            }
        }
    }

    /// Keeps [`State::largest`] up to date with one node. `O(log nodes)`.
    fn measure(&mut self, id: NodeId) {
        let size = self.nodes.get(id.index()).and_then(|node| {
            let cpu = node.facts()?.allocatable().cpu;
            let cards = node.ledger().cards().iter().filter(|c| c.present()).count();
            Some(Largest { cpu, gpu: 1000 * i64::try_from(cards).unwrap_or(i64::MAX / 1000) })
        });
        if self.sizes.set(id, size) {
            self.largest_version += 1;
        }
        let group = self.nodes.get(id.index()).and_then(|node| self.groups.of(node));
        if let Some(node) = self.nodes.get(id.index()).filter(|n| n.group() != group) {
            let id = node.id();
            self.nodes.at_mut(id.index()).set_group(group);
        }
        self.price(id);
    }

    /// Keeps the sums behind prices up to date with one node. `O(cards)`.
    pub(super) fn price(&mut self, id: NodeId) {
        if self.prices.enabled() {
            self.with_prices(|prices, state| prices.update_node(state, id));
        }
    }

    /// Puts an updated node in its place, its guessed devices settled. If it says nothing new, nothing is
    /// numbered and nobody looks at the node again.
    pub(super) fn commit(&mut self, id: NodeId, change: Change, mut updated: NodeState) {
        let guesses = self.settle(&mut updated);
        // A guess that moves leaves the card that it was on.
        let change = if guesses.is_empty() { change } else { Change::Relaxes };
        let known = self.nodes.at(id.index());
        if known.generation() > 0 && updated.is_same_to_pods(known) {
            self.nodes.at_mut(id.index()).set_report(updated.report().cloned());
        } else {
            self.change_node(id, change, |n| *n = updated);
        }
        self.measure(id);
        for (pod, allocation) in guesses {
            self.take_guess(pod, id, allocation);
        }
    }

    /// After a transaction that is kept: what is done at once outside of one.
    pub(super) fn settle_kept(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get(id.index()).cloned() {
            self.commit(id, Change::Relaxes, node);
            self.bury(id);
        }
    }

    /// The only way to change a node: keeps the before-image, numbers the change, refreshes what is derived.
    pub(super) fn change_node<T>(&mut self, id: NodeId, change: Change, f: impl FnOnce(&mut NodeState) -> T) -> T {
        self.remember_node(id);
        self.generation += 1;
        // Where room is kept, who fits beside whom follows from all that is there, not only from what is free.
        let relaxes = change == Change::Relaxes || self.nominated_on(id).next().is_some();
        let node = self.nodes.at_mut(id.index());
        // kubelet goes on to the next NUMA nodes when the first are taken.
        let relaxes = relaxes || node.topology_manager().is_some();
        let (generation, relaxed, lowest) = (node.generation(), node.relaxed(), node.lowest_priority());
        let result = f(node);
        let news = node.refresh(self.generation, relaxes);
        let now = node.lowest_priority();
        self.count_lowest(lowest, now);
        self.notices.extend(news);
        self.changed.remove(&generation);
        self.changed.insert(self.generation, id);
        if relaxes {
            self.relaxed.remove(&relaxed);
            self.relaxed.insert(self.generation, id);
        }
        self.price(id);
        result
    }

    /// Keeps [`State::lowest_priority`] up to date with one node's lowest before and after.
    pub(super) fn count_lowest(&mut self, before: Option<i32>, now: Option<i32>) {
        if before == now {
            return;
        }
        if let Some(now) = now {
            *self.lowest.entry(now).or_default() += 1;
        }
        let Some(before) = before else { return };
        if let Some(nodes) = self.lowest.get_mut(&before) {
            *nodes -= 1;
            if *nodes == 0 {
                self.lowest.remove(&before);
            }
        }
    }
}

/// What a node's cards are: by its report where there is one. Seats are not in a report, so a card keeps
/// the seats that the node object states.
fn merged(known: &[crate::model::CardSpec], report: Option<&DeviceReport>) -> Vec<crate::model::CardSpec> {
    use crate::model::Partitioning;
    let Some(report) = report else { return known.to_vec() };
    let mut cards: Vec<_> = report.devices.iter().map(|d| d.card.clone()).collect();
    for card in cards.iter_mut().filter(|c| c.partitioning == Partitioning::OnDemand) {
        if let Some(by_node) = known.iter().find(|k| k.index == card.index)
            && let Partitioning::TimeSliced { .. } = by_node.partitioning
        {
            card.partitioning = by_node.partitioning.clone();
        }
    }
    cards
}
