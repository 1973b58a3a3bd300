//! The cluster as the engine knows it: nodes, pods, classes, and the ledger inside the nodes.
//!
//! Every change to a node or pod goes through [`State`], which numbers it (a *generation*) and, inside a
//! transaction, keeps what was there before. Two indexes by generation answer "what changed since" in
//! `O(changes)`: one for every change, one for changes that may let a waiting pod in.

mod class;
mod devices;
mod groups;
mod mix;
mod node;
mod pod;
mod sizes;
mod slots;
mod snapshot;
mod transaction;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use class::{Class, ClassSpec, PortKey};
pub use groups::{Group, GroupId, Groups};
pub(crate) use mix::Schedule;
pub use mix::{DeclaredPod, Mix, Shape, Typical};
pub use node::{NodeFacts, NodeState};
pub use pod::{Charge, Placed, PodEntry, Stage};
pub use sizes::Largest;
pub use transaction::{Resolution, Transaction};

use crate::collections::Lookup;
use crate::contract::Notice;
use crate::ledger::{NodeLedger, Placement};
use crate::model::{
    Allocation, ClassId, ContainerAllocation, DeviceGrant, DeviceReport, Mib, Models, Node, NodeId, Pod, PodId, PodUid,
    Symbol, Symbols,
};
use crate::prices::Prices;
use class::ClassTable;
pub(crate) use devices::pinned;
use sizes::Sizes;
use slots::Slots;
use transaction::Undo;

/// How a change to a node can affect pods that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Something was taken: nobody who waits can gain.
    Takes,
    /// Something may have been freed, added or allowed.
    Relaxes,
}

/// The cluster.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct State {
    symbols: Symbols,
    models: Models,
    classes: ClassTable,
    nodes: Slots<NodeState>,
    #[serde(skip)]
    node_by_name: Lookup<Arc<str>, NodeId>,
    pods: Slots<PodEntry>,
    #[serde(skip)]
    pod_by_uid: Lookup<PodUid, PodId>,
    /// Number of the latest change.
    generation: u64,
    changed: BTreeMap<u64, NodeId>,
    relaxed: BTreeMap<u64, NodeId>,
    /// The entry in `changed` that tells readers of a removed node, by slot, until the slot is used again.
    tombstones: BTreeMap<NodeId, u64>,
    sizes: Sizes,
    largest_version: u64,
    /// Key and value of the taint that a cordoned node stands for.
    cordon: (Symbol, Symbol),
    mix: Mix,
    groups: Groups,
    prices: Prices,
    #[serde(skip)]
    log: Vec<Undo>,
    /// The transaction that last kept an image of each slot.
    #[serde(skip)]
    node_marks: Vec<u64>,
    #[serde(skip)]
    pod_marks: Vec<u64>,
    #[serde(skip)]
    transactions: Vec<u64>,
    next_transaction: u64,
    notices: Vec<Notice>,
    foreign_tolerance: Mib,
}

impl State {
    /// An empty cluster.
    pub(crate) fn new(foreign_tolerance: Mib) -> Self {
        let mut symbols = Symbols::default();
        let cordon = (symbols.intern("node.kubernetes.io/unschedulable"), symbols.intern(""));
        Self {
            symbols,
            models: Models::default(),
            classes: ClassTable::default(),
            nodes: Slots::default(),
            node_by_name: Lookup::default(),
            pods: Slots::default(),
            pod_by_uid: Lookup::default(),
            generation: 0,
            changed: BTreeMap::new(),
            relaxed: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            sizes: Sizes::default(),
            largest_version: 0,
            cordon,
            mix: Mix::default(),
            groups: Groups::default(),
            prices: Prices::default(),
            log: Vec::new(),
            node_marks: Vec::new(),
            pod_marks: Vec::new(),
            transactions: Vec::new(),
            next_transaction: 1,
            notices: Vec::new(),
            foreign_tolerance,
        }
    }

    /// Interned strings.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
    /// GPU models and patterns.
    pub fn models(&self) -> &Models {
        &self.models
    }
    /// Nodes in slot order, ghosts (deleted or not yet seen, but with pods) among them.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeState> {
        self.nodes.iter()
    }
    /// Nodes that can be scheduled to, in slot order.
    pub fn live_nodes(&self) -> impl Iterator<Item = &NodeState> {
        self.nodes.iter().filter(|n| n.facts().is_some())
    }
    /// Slots that exist, taken or not: ids run below this.
    pub fn node_slots(&self) -> usize {
        self.nodes.len()
    }
    /// The node in a slot.
    pub fn node(&self, id: NodeId) -> Option<&NodeState> {
        self.nodes.get(id.index())
    }
    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<&NodeState> {
        self.node(*self.node_by_name.get(name)?)
    }
    /// Pods in slot order.
    pub fn pods(&self) -> impl Iterator<Item = &PodEntry> {
        self.pods.iter()
    }
    /// The pod in a slot.
    pub fn pod(&self, id: PodId) -> Option<&PodEntry> {
        self.pods.get(id.index())
    }
    /// The pod of a UID.
    pub fn pod_of(&self, uid: &PodUid) -> Option<&PodEntry> {
        self.pod(*self.pod_by_uid.get(uid)?)
    }
    /// A class.
    ///
    /// # Panics
    /// If no pod is of that class any more.
    pub fn class(&self, id: ClassId) -> &Arc<Class> {
        self.classes.get(id)
    }
    /// The largest node in each dimension.
    pub fn largest(&self) -> Largest {
        self.sizes.largest()
    }
    /// Changes whenever [`State::largest`] does.
    pub fn largest_version(&self) -> u64 {
        self.largest_version
    }
    /// Key and value of the taint `node.kubernetes.io/unschedulable`, which a cordoned node stands for.
    pub fn cordon_taint(&self) -> (Symbol, Symbol) {
        self.cordon
    }
    /// The mix of requests that policies reckon with.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }
    /// Counts a pod that arrived.
    pub(crate) fn count_arrival(&mut self, id: PodId) {
        let class = self.class(self.pods.at(id.index()).class).clone();
        self.mix.count(Shape::of(&class.spec));
        self.with_prices(|prices, state| prices.arrival(state));
    }
    /// Groups of alike nodes.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }
    /// What scarce things are worth.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }
    /// Has prices learnt from now on; without it they cost nothing.
    pub(crate) fn enable_prices(&mut self) {
        self.prices.enable();
    }
    /// Ends a decision: from time to time prices follow what is left of the cluster.
    pub(crate) fn end_decision(&mut self) {
        self.with_prices(|prices, state| prices.decision(state));
    }
    fn with_prices(&mut self, f: impl FnOnce(&mut Prices, &State)) {
        let mut prices = std::mem::take(&mut self.prices);
        f(&mut prices, self);
        self.prices = prices;
    }
    /// The number of the latest change.
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// Nodes changed after generation `since`, oldest change first: `O(changes)`.
    pub fn changed_since(&self, since: u64) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        self.changed.range(since + 1..).map(|(g, n)| (*g, *n))
    }
    /// Nodes after generation `since` that may let a waiting pod in, oldest change first.
    pub fn relaxed_since(&self, since: u64) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        self.relaxed.range(since + 1..).map(|(g, n)| (*g, *n))
    }

    /// A hash over everything that a transaction can change: equal contents, equal hashes.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        for node in self.nodes.iter() {
            node.hash(&mut hasher);
        }
        for pod in self.pods.iter() {
            pod.hash(&mut hasher);
        }
        self.changed.hash(&mut hasher);
        self.relaxed.hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    // ---- nodes -------------------------------------------------------------------------------------

    /// A node appeared or changed.
    pub(crate) fn apply_node(&mut self, node: &Node) {
        let id = self.node_slot(&node.name);
        let facts = NodeFacts::compile(node, &mut self.symbols);
        let mut updated = self.nodes.at(id.index()).clone();
        let cards = merged(facts.cards(), updated.report().map(|r| &**r));
        updated.set_facts(Some(Arc::new(facts)));
        self.take_inventory(&mut updated, &cards);
        self.commit(id, Change::Relaxes, updated);
    }

    /// A node is gone; it stays as a ghost while pods are on it or a report tells of it.
    pub(crate) fn delete_node(&mut self, name: &str) {
        let Some(id) = self.node_by_name.get(name).copied() else { return };
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
    fn node_slot(&mut self, name: &str) -> NodeId {
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
    fn bury(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id.index()) else { return };
        if node.facts().is_none() && node.pods().is_empty() && node.report().is_none() {
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
    fn price(&mut self, id: NodeId) {
        if self.prices.enabled() {
            self.with_prices(|prices, state| prices.update_node(state, id));
        }
    }

    /// Puts an updated node in its place, its guessed devices settled. If it says nothing new, nothing is
    /// numbered and nobody looks at the node again.
    fn commit(&mut self, id: NodeId, change: Change, mut updated: NodeState) {
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
    fn settle_kept(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get(id.index()).cloned() {
            self.commit(id, Change::Relaxes, node);
            self.bury(id);
        }
    }

    /// The only way to change a node: keeps the before-image, numbers the change, refreshes what is derived.
    fn change_node<T>(&mut self, id: NodeId, change: Change, f: impl FnOnce(&mut NodeState) -> T) -> T {
        self.remember_node(id);
        self.generation += 1;
        let node = self.nodes.at_mut(id.index());
        let (generation, relaxed) = (node.generation(), node.relaxed());
        let result = f(node);
        let news = node.refresh(self.generation, change == Change::Relaxes);
        self.notices.extend(news);
        self.changed.remove(&generation);
        self.changed.insert(self.generation, id);
        if change == Change::Relaxes {
            self.relaxed.remove(&relaxed);
            self.relaxed.insert(self.generation, id);
        }
        self.price(id);
        result
    }

    // ---- pods --------------------------------------------------------------------------------------

    /// A pod appeared or changed: compiles it. Placement is left as it is.
    pub(crate) fn apply_pod(&mut self, pod: &Pod, profile: Option<u8>) -> PodId {
        let spec = ClassSpec::compile(pod, profile, &mut self.symbols, &mut self.models);
        let class = self.classes.acquire(spec);
        let charge = self.classes.get(class).spec.charge.clone();
        match self.pod_by_uid.get(&pod.uid).copied() {
            Some(id) => {
                let known = self.pods.at_mut(id.index());
                let old = known.class;
                known.update(pod, class, charge);
                self.classes.release(old);
                id
            }
            None => {
                let entry = PodEntry::new(pod, class, charge);
                let id = PodId::from_index(self.pods.insert_with(|at| entry.in_slot(PodId::from_index(at))));
                self.pod_by_uid.insert(pod.uid.clone(), id);
                id
            }
        }
    }

    /// Fixes the mix of requests.
    pub(crate) fn declare_mix(&mut self, pods: &[DeclaredPod]) {
        let models = &mut self.models;
        let shape = |p: &DeclaredPod| Shape { cpu: p.cpu, gpu: p.gpu, pattern: models.pattern(&p.models) };
        let shapes: Vec<Shape> = pods.iter().map(shape).collect();
        self.mix.declare(shapes);
    }

    /// Charges a placed pod by the newest version of it.
    pub(crate) fn recharge(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id.index()) else { return };
        let charge = self.classes.get(entry.class).spec.charge.clone();
        let (Some(placed), old) = (&entry.placed, entry.charge.clone()) else { return };
        if *old == *charge {
            return;
        }
        let node = placed.node;
        self.remember_pod(id);
        self.pods.at_mut(id.index()).charge = charge.clone();
        self.change_node(node, Change::Relaxes, |n| n.recharge(&old, &charge));
    }

    /// Forgets a pod and gives back what it holds.
    pub(crate) fn remove_pod(&mut self, id: PodId) {
        if self.unplace(id).is_some() {
            self.mix.depart();
        }
        if let Some(entry) = self.pods.remove(id.index()) {
            self.pod_by_uid.remove(&entry.uid);
            self.classes.release(entry.class);
        }
    }

    /// Classes that lost their last pod since the last call.
    pub(crate) fn take_dead_classes(&mut self) -> Vec<ClassId> {
        self.classes.take_dead()
    }

    /// Places a pod by our own decision.
    ///
    /// # Panics
    /// If the pod is placed already, or the grant would break an invariant of the ledger.
    pub(crate) fn assume(&mut self, id: PodId, node: NodeId, placement: &Placement) {
        self.remember_pod(id);
        let entry = self.pods.at(id.index());
        assert!(entry.placed.is_none(), "pod {} is placed twice", entry.name);
        let class = self.classes.get(entry.class).clone();
        let request = &class.spec.gpu;
        let allocation = record(placement, request, self.nodes.at(node.index()).ledger());
        let (uid, charge) = (entry.uid.clone(), entry.charge.clone());
        let peaks = placement.peaks(request);
        self.change_node(node, Change::Takes, |n| {
            n.add_pod(id, &charge);
            n.ledger_mut().grant(id, &uid, &peaks);
            n.measure_pod(&uid);
        });
        self.pods.at_mut(id.index()).placed =
            Some(Placed { node, allocation, stage: Stage::Assumed, guessed: false, doubted: None });
    }

    /// An assumed pod turned out to be bound where we wanted it.
    pub(crate) fn confirm(&mut self, id: PodId) {
        self.remember_pod(id);
        if let Some(placed) = &mut self.pods.at_mut(id.index()).placed {
            placed.stage = Stage::Bound;
        }
    }

    /// Writes down where a pod is, by somebody else's word. Never refused.
    pub(crate) fn observe(&mut self, id: PodId, node: &str, record: Option<&Allocation>) {
        self.unplace(id);
        self.remember_pod(id);
        let node_id = self.node_slot(node);
        let entry = self.pods.at_mut(id.index());
        let (uid, charge) = (entry.uid.clone(), entry.charge.clone());
        let class = self.classes.get(entry.class).clone();
        let (trusted, doubted) = match record {
            Some(record) => self.doubt(id, node_id, record, &class.spec.gpu),
            None => (None, None),
        };
        let guessed = trusted.is_none() && !class.spec.gpu.is_none();
        let allocation = trusted.unwrap_or_default();
        let entry = self.pods.at_mut(id.index());
        entry.placed = Some(Placed { node: node_id, allocation, stage: Stage::Bound, guessed, doubted });
        let mut updated = self.nodes.at(node_id.index()).clone();
        updated.add_pod(id, &charge);
        self.hold(&mut updated, id);
        updated.measure_pod(&uid);
        self.commit(node_id, Change::Takes, updated);
    }

    /// Takes a pod off its node; what it held is free. A pod that is nowhere stays so.
    pub(crate) fn unplace(&mut self, id: PodId) -> Option<Placed> {
        let entry = self.pods.get(id.index())?;
        entry.placed.as_ref()?;
        self.remember_pod(id);
        let entry = self.pods.at_mut(id.index());
        let placed = entry.placed.take()?;
        let (uid, charge) = (entry.uid.clone(), entry.charge.clone());
        if self.transactions.is_empty() {
            let mut updated = self.nodes.at(placed.node.index()).clone();
            updated.remove_pod(id, &charge);
            updated.ledger_mut().release(id, &uid);
            self.commit(placed.node, Change::Relaxes, updated);
            self.bury(placed.node);
        } else {
            self.change_node(placed.node, Change::Relaxes, |n| {
                n.remove_pod(id, &charge);
                n.ledger_mut().release(id, &uid);
            });
        }
        Some(placed)
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

/// The record of a placement.
fn record(placement: &Placement, request: &crate::model::GpuRequest, ledger: &NodeLedger) -> Allocation {
    use crate::ledger::HoldKind;
    use crate::model::GrantKind;
    let containers = request.containers.iter().zip(&placement.containers).map(|(container, placed)| {
        // One kind names all devices of a container; where they differ, each is read by its card.
        let first = placed.grants.first().filter(|first| placed.grants.iter().all(|g| g.kind == first.kind));
        let kind = first.map(|g| match g.kind {
            HoldKind::Whole => GrantKind::Whole,
            HoldKind::Share => GrantKind::Share,
            HoldKind::Seat => GrantKind::Seat,
            HoldKind::Slice => GrantKind::Mig,
        });
        let devices = placed.grants.iter().map(|grant| {
            let card = &ledger.cards()[usize::from(grant.card)];
            DeviceGrant {
                uuid: card.uuid().to_string(),
                index: card.spec().index,
                memory: grant.memory,
                compute: grant.compute,
                mig: grant.slice.and_then(|at| Some(card.partitions().get(usize::from(at))?.uuid.clone())),
            }
        });
        ContainerAllocation { name: container.name.clone(), kind, devices: devices.collect() }
    });
    Allocation { containers: containers.collect() }
}
