//! One node: what is known of it and what is on it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::contract::Notice;
use crate::ledger::{Card, Closed, Headroom, NodeLedger, Overcommit};
use crate::model::{
    CardSpec, ClassId, CompiledTaint, DeviceReport, DeviceStatus, Models, Node, NodeId, Partitioning, PodId, PodUid,
    Resources, Symbol, Symbols, TopologyManager,
};
use crate::state::class::PortKey;
use crate::state::groups::GroupId;
use crate::state::kin::KinId;
use crate::state::pod::{Charge, Presence};

/// The resource of the seats that our agent hands out next to a share.
const SEAT_RESOURCE: &str = "nvidia.com/gpu.shared";
/// Where a node states no limit: kubelet's default.
const DEFAULT_MAX_PODS: i64 = 110;

/// What the node object says, compiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct NodeFacts {
    labels: Box<[(Symbol, Symbol)]>,
    taints: Box<[CompiledTaint]>,
    unschedulable: bool,
    allocatable: Resources,
    max_pods: i64,
    offers_seats: bool,
    gpus_withdrawn: bool,
    images: Box<[(Symbol, i64)]>,
    features: Box<[Symbol]>,
    cards: Box<[CardSpec]>,
}

impl NodeFacts {
    pub(super) fn compile(node: &Node, symbols: &mut Symbols) -> Self {
        let mut labels: Vec<_> = node.labels.iter().map(|(k, v)| (symbols.intern(k), symbols.intern(v))).collect();
        labels.sort_unstable();
        let mut features: Box<[_]> = node.declared_features.iter().map(|f| symbols.intern(f)).collect();
        features.sort_unstable();
        Self {
            labels: labels.into(),
            taints: node.taints.iter().map(|t| CompiledTaint::new(t, symbols)).collect(),
            unschedulable: node.unschedulable,
            allocatable: Resources::compile(&node.allocatable, symbols),
            max_pods: node.allocatable.get("pods").map_or(DEFAULT_MAX_PODS, |q| q.value()),
            offers_seats: offers_seats(node),
            gpus_withdrawn: gpus_withdrawn(node),
            images: interned(&node.images, symbols),
            features,
            cards: node.cards.clone().into(),
        }
    }

    /// Whether pods that look at nodes by label, taint or cordon cannot tell it from `other`.
    pub(super) fn is_same_to_relations(&self, other: &Self) -> bool {
        (&self.labels, &self.taints, self.unschedulable) == (&other.labels, &other.taints, other.unschedulable)
    }
    /// Images that are there, by name, with their sizes in bytes.
    pub fn images(&self) -> &[(Symbol, i64)] {
        &self.images
    }
    /// The size of an image that is there.
    pub fn image(&self, name: Symbol) -> Option<i64> {
        self.images.binary_search_by_key(&name, |i| i.0).ok().map(|at| self.images[at].1)
    }
    /// Features that kubelet declares, sorted.
    pub fn features(&self) -> &[Symbol] {
        &self.features
    }
    /// The value of a label.
    pub fn label(&self, key: Symbol) -> Option<Symbol> {
        self.labels.binary_search_by_key(&key, |l| l.0).ok().map(|at| self.labels[at].1)
    }
    /// Taints.
    pub fn taints(&self) -> &[CompiledTaint] {
        &self.taints
    }
    /// Whether it is cordoned.
    pub fn unschedulable(&self) -> bool {
        self.unschedulable
    }
    /// What pods may ask for in all.
    pub fn allocatable(&self) -> &Resources {
        &self.allocatable
    }
    /// How many pods it takes.
    pub fn max_pods(&self) -> i64 {
        self.max_pods
    }
    /// Whether kubelet hands out seats for shares here: then a share needs one.
    pub fn offers_seats(&self) -> bool {
        self.offers_seats
    }
    /// Whether nobody hands its GPUs out any more: kubelet sets what is allocatable to zero when the device
    /// plugin is gone, and leaves the capacity.
    pub fn gpus_withdrawn(&self) -> bool {
        self.gpus_withdrawn
    }
    /// The cards that the node object tells of.
    pub fn cards(&self) -> &[CardSpec] {
        &self.cards
    }
}

fn interned(images: &[(String, i64)], symbols: &mut Symbols) -> Box<[(Symbol, i64)]> {
    let mut images: Vec<_> = images.iter().map(|(name, size)| (symbols.intern(name), *size)).collect();
    images.sort_unstable();
    images.dedup_by_key(|i| i.0);
    images.into()
}

/// How many pods of a kin are on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct KinCount {
    /// The kin.
    pub kin: KinId,
    /// Pods of it.
    pub pods: u32,
    /// Those of them that are being deleted.
    pub terminating: u32,
}

/// Seats of time-sliced cards that go by the same name are no seats beside a share.
fn offers_seats(node: &Node) -> bool {
    let shareable = |c: &CardSpec| c.partitioning == Partitioning::OnDemand;
    let seats = node.allocatable.get(SEAT_RESOURCE).is_some_and(|q| q.value() > 0);
    seats && (node.cards.is_empty() || node.cards.iter().any(shareable))
}

fn gpus_withdrawn(node: &Node) -> bool {
    let is_gpu = |name: &str| name == "nvidia.com/gpu" || name == SEAT_RESOURCE || name.starts_with("nvidia.com/mig-");
    let mut offered =
        node.allocatable.iter().filter(|(name, _)| is_gpu(name)).map(|(_, amount)| amount.value()).peekable();
    // A node that never had such a resource has no device plugin to miss.
    let had_some = !node.cards.is_empty() || offered.peek().is_some();
    had_some && offered.all(|amount| amount <= 0)
}

/// A node with its pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct NodeState {
    id: NodeId,
    name: Arc<str>,
    symbol: Symbol,
    group: Option<GroupId>,
    facts: Option<Arc<NodeFacts>>,
    report: Option<Arc<DeviceReport>>,
    /// Whether the report's measurements count.
    measuring: bool,
    requested: Resources,
    non_zero_cpu: i64,
    non_zero_memory: i64,
    pods: Vec<PodId>,
    ports: Vec<PortKey>,
    kin: Vec<KinCount>,
    /// Its pods by priority, sorted.
    priorities: SmallVec<[(i32, u32); 2]>,
    affine: Vec<(ClassId, u32)>,
    /// Its pods with volumes, sorted.
    voluminous: Vec<PodId>,
    ledger: NodeLedger,
    headroom: Headroom,
    bare: bool,
    trouble: Vec<(Arc<str>, Overcommit)>,
    generation: u64,
    relaxed: u64,
}

impl NodeState {
    pub(super) fn ghost(id: NodeId, name: Arc<str>, symbol: Symbol, ledger: NodeLedger) -> Self {
        Self {
            id,
            name,
            symbol,
            group: None,
            facts: None,
            report: None,
            measuring: false,
            requested: Resources::default(),
            non_zero_cpu: 0,
            non_zero_memory: 0,
            pods: Vec::new(),
            ports: Vec::new(),
            kin: Vec::new(),
            priorities: SmallVec::new(),
            affine: Vec::new(),
            voluminous: Vec::new(),
            ledger,
            headroom: Headroom::default(),
            bare: false,
            trouble: Vec::new(),
            generation: 0,
            relaxed: 0,
        }
    }

    /// Its slot.
    pub fn id(&self) -> NodeId {
        self.id
    }
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
    /// Its name, interned.
    pub fn symbol(&self) -> Symbol {
        self.symbol
    }
    /// The group of alike nodes that it belongs to; `None` for a ghost.
    pub fn group(&self) -> Option<GroupId> {
        self.group
    }
    /// What the node object says; `None` for a ghost, which is never scheduled to.
    pub fn facts(&self) -> Option<&NodeFacts> {
        self.facts.as_deref()
    }
    /// The agent's report.
    pub fn report(&self) -> Option<&Arc<DeviceReport>> {
        self.report.as_ref()
    }
    /// How its kubelet aligns devices to NUMA nodes, if it does and there is a choice: where all cards are on one NUMA node,
    /// or on none, it makes no difference.
    pub fn topology_manager(&self) -> Option<TopologyManager> {
        let topology = self.report.as_ref()?.topology_manager.filter(|it| it.aligns())?;
        let mut nodes = self.ledger.cards().iter().filter(|card| card.present()).map(|card| card.spec().numa);
        let first = nodes.next()?;
        nodes.any(|node| node != first).then_some(topology)
    }
    /// The sum of its pods' requests.
    pub fn requested(&self) -> &Resources {
        &self.requested
    }
    /// CPU (milli-cores) and memory (bytes) requested, with defaults for pods that state none.
    pub fn non_zero_requested(&self) -> (i64, i64) {
        (self.non_zero_cpu, self.non_zero_memory)
    }
    /// Its pods, by slot.
    pub fn pods(&self) -> &[PodId] {
        &self.pods
    }
    /// Host ports in use, sorted.
    pub fn ports(&self) -> &[PortKey] {
        &self.ports
    }
    /// Its pods by kin, sorted.
    pub fn kin(&self) -> &[KinCount] {
        &self.kin
    }
    /// The lowest priority of its pods.
    pub fn lowest_priority(&self) -> Option<i32> {
        self.priorities.first().map(|(priority, _)| *priority)
    }
    /// Classes with pod affinity or anti-affinity that have pods here, and how many; sorted.
    pub fn affine(&self) -> &[(ClassId, u32)] {
        &self.affine
    }
    /// Its pods with volumes that matter, by slot.
    pub fn voluminous(&self) -> &[PodId] {
        &self.voluminous
    }
    /// Its GPUs.
    pub fn ledger(&self) -> &NodeLedger {
        &self.ledger
    }
    /// What is left of it.
    pub fn headroom(&self) -> &Headroom {
        &self.headroom
    }
    /// Whether nothing is known of it but its cards and what the node object allows: no pod, no taint, every card
    /// wholly idle. A node whose cards do not come in the order of its group's is not called bare.
    pub fn is_bare(&self) -> bool {
        self.bare
    }
    /// Whether two bare nodes have the same cards and CPU, and kubelets that would choose the same of them. They may differ in
    /// names, labels, UUIDs and memory.
    pub fn is_twin_of(&self, other: &Self) -> bool {
        let twins = self.bare
            && other.bare
            && self.group == other.group
            && self.headroom.cpu == other.headroom.cpu
            && self.is_aligned_as(other);
        // The group says what the cards are: comparing them would fetch all that a score reads.
        debug_assert!(!twins || self.headroom.cards == other.headroom.cards, "{} and {}", self.name, other.name);
        twins
    }
    fn is_aligned_as(&self, other: &Self) -> bool {
        let (topology, theirs) = (self.topology_manager(), other.topology_manager());
        let (ours, others) = (self.ledger.cards().iter(), other.ledger.cards().iter());
        topology == theirs && (topology.is_none() || ours.map(|c| c.spec().numa).eq(others.map(|c| c.spec().numa)))
    }
    /// Number of its latest change.
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// Number of its latest change that may let a waiting pod in.
    pub fn relaxed(&self) -> u64 {
        self.relaxed
    }

    pub(super) fn set_group(&mut self, group: Option<GroupId>) {
        self.group = group;
    }
    /// Whether pods cannot tell it from `other`: all but the report's own text is the same.
    pub(super) fn is_same_to_pods(&self, other: &Self) -> bool {
        self.facts == other.facts
            && self.ledger == other.ledger
            && self.pods == other.pods
            && self.requested == other.requested
            && self.ports == other.ports
            && self.kin == other.kin
            && self.affine == other.affine
            && self.voluminous == other.voluminous
            && self.measuring == other.measuring
            && self.topology_manager() == other.topology_manager()
    }
    pub(super) fn ledger_mut(&mut self) -> &mut NodeLedger {
        &mut self.ledger
    }
    pub(super) fn set_facts(&mut self, facts: Option<Arc<NodeFacts>>) {
        self.facts = facts;
    }
    pub(super) fn set_report(&mut self, report: Option<Arc<DeviceReport>>) {
        self.report = report;
    }
    pub(super) fn set_inventory(&mut self, cards: &[CardSpec], models: &mut Models) {
        let name = self.name.clone();
        self.ledger.set_inventory(&name, cards, models);
    }
    /// Starts to count the report's measurements of pods that are `resident`.
    pub(super) fn measure(&mut self, resident: impl Fn(&PodUid) -> bool) {
        let report = self.report.clone();
        let devices: &[DeviceStatus] = report.as_ref().map_or(&[], |r| &r.devices);
        self.measuring = true;
        self.ledger.set_measurements(devices, resident);
    }

    /// Forgets all measurements: what was granted counts.
    pub(super) fn stop_measuring(&mut self) {
        self.measuring = false;
        self.ledger.set_measurements(&[], |_| false);
    }

    /// What the report measured of a stranger is this pod's.
    pub(super) fn measure_pod(&mut self, uid: &PodUid) {
        if let (true, Some(report)) = (self.measuring, self.report.clone()) {
            self.ledger.measure_pod(uid, &report.devices);
        }
    }

    pub(super) fn add_pod(&mut self, pod: PodId, charge: &Charge, presence: Presence) {
        if let Err(at) = self.pods.binary_search(&pod) {
            self.pods.insert(at, pod);
        }
        self.note_volumes(pod, presence.volumes);
        self.add(charge, presence);
    }

    pub(super) fn remove_pod(&mut self, pod: PodId, charge: &Charge, presence: Presence) {
        if let Ok(at) = self.pods.binary_search(&pod) {
            self.pods.remove(at);
        }
        self.note_volumes(pod, false);
        self.subtract(charge, presence);
    }

    fn note_volumes(&mut self, pod: PodId, has: bool) {
        match (self.voluminous.binary_search(&pod), has) {
            (Err(at), true) => self.voluminous.insert(at, pod),
            (Ok(at), false) => drop(self.voluminous.remove(at)),
            (Ok(_), true) | (Err(_), false) => {}
        }
    }

    fn add(&mut self, charge: &Charge, presence: Presence) {
        self.requested.add(&charge.requests);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_add(charge.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_add(charge.non_zero_memory);
        self.add_ports(&charge.ports);
        let at = self.kin.binary_search_by_key(&presence.kin, |k| k.kin).unwrap_or_else(|at| {
            self.kin.insert(at, KinCount { kin: presence.kin, pods: 0, terminating: 0 });
            at
        });
        self.kin[at].pods += 1;
        self.kin[at].terminating += u32::from(presence.terminating);
        match self.priorities.binary_search_by_key(&presence.priority, |p| p.0) {
            Ok(at) => self.priorities[at].1 += 1,
            Err(at) => self.priorities.insert(at, (presence.priority, 1)),
        }
        if let Some(class) = presence.affine {
            match self.affine.binary_search_by_key(&class, |a| a.0) {
                Ok(at) => self.affine[at].1 += 1,
                Err(at) => self.affine.insert(at, (class, 1)),
            }
        }
    }

    fn subtract(&mut self, charge: &Charge, presence: Presence) {
        self.requested.subtract(&charge.requests);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_sub(charge.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_sub(charge.non_zero_memory);
        self.remove_ports(&charge.ports);
        if let Ok(at) = self.kin.binary_search_by_key(&presence.kin, |k| k.kin) {
            self.kin[at].pods -= 1;
            self.kin[at].terminating -= u32::from(presence.terminating);
            if self.kin[at].pods == 0 {
                self.kin.remove(at);
            }
        }
        if let Ok(at) = self.priorities.binary_search_by_key(&presence.priority, |p| p.0) {
            self.priorities[at].1 -= 1;
            if self.priorities[at].1 == 0 {
                self.priorities.remove(at);
            }
        }
        if let Some(class) = presence.affine
            && let Ok(at) = self.affine.binary_search_by_key(&class, |a| a.0)
        {
            self.affine[at].1 -= 1;
            if self.affine[at].1 == 0 {
                self.affine.remove(at);
            }
        }
    }

    fn add_ports(&mut self, ports: &[PortKey]) {
        self.ports.extend_from_slice(ports);
        self.ports.sort_unstable();
    }

    fn remove_ports(&mut self, ports: &[PortKey]) {
        for port in ports {
            if let Ok(at) = self.ports.binary_search(port) {
                self.ports.remove(at);
            }
        }
    }

    pub(super) fn recharge(&mut self, pod: PodId, old: (&Charge, Presence), new: (&Charge, Presence)) {
        self.note_volumes(pod, new.1.volumes);
        self.subtract(old.0, old.1);
        self.add(new.0, new.1);
    }

    /// Works out what is derived after a change; returns what people should know. `O(cards * holders)`.
    pub(super) fn refresh(&mut self, generation: u64, relaxes: bool) -> SmallVec<[Notice; 1]> {
        self.generation = generation;
        if relaxes {
            self.relaxed = generation;
        }
        let (cpu, memory) = self.facts.as_ref().map_or((0, 0), |f| (f.allocatable.cpu, f.allocatable.memory));
        self.headroom = Headroom {
            cpu: cpu.saturating_sub(self.requested.cpu),
            memory: memory.saturating_sub(self.requested.memory),
            cards: self.ledger.rooms(),
        };
        self.bare = self.pods.is_empty()
            && self.facts.as_ref().is_some_and(|f| f.taints.is_empty())
            && self.ledger.cards().iter().all(Card::is_idle)
            && self.headroom.cards.is_sorted_by_key(|c| (c.model, c.total));
        // A node that is gone, or not yet described, is nobody's trouble.
        let cards = self.facts.as_ref().map_or(&[][..], |_| self.ledger.cards());
        let trouble: Vec<(Arc<str>, Overcommit)> = cards
            .iter()
            .filter_map(|c| match &c.room().closed {
                Some(Closed::Overcommitted(why)) => Some((c.uuid().clone(), why.clone())),
                _ => None,
            })
            .collect();
        let mut news = SmallVec::new();
        for (uuid, why) in trouble.iter().filter(|t| !self.trouble.contains(t)) {
            let (node, uuid, why) = (self.name.clone(), uuid.clone(), why.to_string());
            news.push(Notice::CardOvercommitted { node, uuid, why });
        }
        for (uuid, _) in self.trouble.iter().filter(|(uuid, _)| !trouble.iter().any(|(u, _)| u == uuid)) {
            news.push(Notice::CardHealed { node: self.name.clone(), uuid: uuid.clone() });
        }
        self.trouble = trouble;
        news
    }
}
