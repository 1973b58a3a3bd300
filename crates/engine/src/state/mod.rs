//! The cluster as the engine knows it: nodes, pods, classes, and the ledger inside the nodes.
//!
//! Every change to a node or pod goes through [`State`], which numbers it (a *generation*) and, inside a
//! transaction, keeps what was there before. Two indexes by generation answer "what changed since" in
//! `O(changes)`: one for every change, one for changes that may let a waiting pod in.

mod class;
mod devices;
mod disturbance;
mod groups;
mod kin;
mod mix;
mod neighbours;
mod node;
mod node_changes;
mod pod;
mod pod_changes;
mod pod_groups;
mod relations;
mod sizes;
mod slots;
mod snapshot;
mod transaction;
mod volumes;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use class::{Class, ClassSpec, PortKey};
pub use disturbance::Disturbance;
pub use groups::{Group, GroupId, Groups};
pub use kin::{Kin, KinId, Kins};
pub(crate) use mix::Schedule;
pub use mix::{DeclaredPod, Mix, Shape, Typical};
pub use node::{KinCount, NodeFacts, NodeState};
pub use pod::{Charge, Placed, PodEntry, Presence, Stage};
pub use relations::{AffinityTerm, Relations, SpreadConstraint};
pub use sizes::Largest;
pub use transaction::{Resolution, Transaction};
pub use volumes::{Assumed, KnownCapacity, KnownClass, KnownVolume, PodClaim, PodVolumes, Volumes};

use crate::collections::Lookup;
use crate::contract::Notice;
use crate::model::{ClassId, Mib, Models, NodeId, PodId, PodUid, Symbol, Symbols};
use crate::prices::Prices;
use class::ClassTable;
pub(crate) use devices::pinned;
use neighbours::Neighbours;
use pod_groups::PodGroups;
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
    kins: Kins,
    /// Whether new selectors tell pods apart that were alike.
    reclassify: bool,
    /// What happened that may let a pod in far from where it happened, for the queue.
    disturbances: Vec<Disturbance>,
    neighbours: Neighbours,
    volumes: Volumes,
    pod_groups: PodGroups,
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
    /// The lowest priority among the pods of each node that has any: how many nodes have which.
    lowest: BTreeMap<i32, u32>,
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
            kins: Kins::default(),
            reclassify: false,
            disturbances: Vec::new(),
            neighbours: Neighbours::default(),
            volumes: Volumes::default(),
            pod_groups: PodGroups::default(),
            nodes: Slots::default(),
            node_by_name: Lookup::default(),
            pods: Slots::default(),
            pod_by_uid: Lookup::default(),
            generation: 0,
            changed: BTreeMap::new(),
            relaxed: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            sizes: Sizes::default(),
            lowest: BTreeMap::new(),
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
    /// The lowest priority of any pod on a node.
    pub fn lowest_priority(&self) -> Option<i32> {
        self.lowest.first_key_value().map(|(priority, _)| *priority)
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

    /// What selectors can tell of pods.
    pub fn kins(&self) -> &Kins {
        &self.kins
    }
    /// Classes whose pods others have to mind.
    pub fn affine_classes(&self) -> impl Iterator<Item = &Arc<Class>> {
        self.classes.affine()
    }

    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}
