//! One pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    Allocation, ClassId, ContainerKind, NodeId, Pod, PodGroupName, PodId, PodName, PodUid, ResourceList, Resources,
    Symbols, Timestamp, VolumePlan, bounded, effective_requests, incoming_requests, non_zero_requests,
};
use crate::state::class::{ClassSpec, PortKey};
use crate::state::kin::KinId;

/// What a pod takes of its node besides GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Charge {
    /// Effective request.
    pub requests: Resources,
    /// CPU with defaults, milli-cores: for scores, once the pod is on its node.
    pub non_zero_cpu: i64,
    /// Memory with defaults, bytes: for scores, once the pod is on its node.
    pub non_zero_memory: i64,
    /// As `non_zero_cpu`, for the pod that is being placed.
    pub incoming_cpu: i64,
    /// As `non_zero_memory`, for the pod that is being placed.
    pub incoming_memory: i64,
    /// Host ports, sorted.
    pub ports: Box<[PortKey]>,
}

impl Charge {
    pub(super) fn of(pod: &Pod, symbols: &mut Symbols) -> Self {
        let (non_zero, incoming) = (non_zero_requests(pod), incoming_requests(pod));
        let cpu = |list: &ResourceList| list.get("cpu").map_or(0, |q| bounded(q.milli_value()));
        let memory = |list: &ResourceList| list.get("memory").map_or(0, |q| bounded(q.value()));
        // Plain init containers are gone before a host port could clash.
        let long_running = pod.containers.iter().filter(|c| c.kind != ContainerKind::Init);
        let mut ports: Vec<_> = long_running.flat_map(|c| &c.ports).map(|p| PortKey::new(p, symbols)).collect();
        ports.sort_unstable();
        Self {
            requests: Resources::compile(&effective_requests(pod), symbols),
            non_zero_cpu: cpu(&non_zero),
            non_zero_memory: memory(&non_zero),
            incoming_cpu: cpu(&incoming),
            incoming_memory: memory(&incoming),
            ports: ports.into(),
        }
    }
}

/// What other pods see of a pod that is on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Presence {
    /// What selectors can tell of it.
    pub kin: KinId,
    /// Its class, if that has pod affinity or anti-affinity.
    pub affine: Option<ClassId>,
    /// Whether it is being deleted: a spread does not count it any more.
    pub terminating: bool,
    /// Its priority.
    pub priority: i32,
    /// Whether it has volumes that matter.
    pub volumes: bool,
}

impl Presence {
    pub(super) fn of(spec: &ClassSpec, class: ClassId, terminating: bool, priority: i32) -> Self {
        let affine = spec.relations.as_ref().is_some_and(|r| r.has_pod_affinity());
        let volumes = spec.volumes.is_some();
        Self { kin: spec.kin, affine: affine.then_some(class), terminating, priority, volumes }
    }
}

/// How sure a placement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Stage {
    /// Decided by us, its bind not confirmed yet.
    Assumed,
    /// A fact.
    Bound,
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Placed {
    /// The node.
    pub node: NodeId,
    /// Its devices.
    pub allocation: Allocation,
    /// How sure that is.
    pub stage: Stage,
    /// Whether the devices are a guess, because no record says them.
    pub guessed: bool,
    /// The record as it was found, if its pod is held by something else, because it cannot be true.
    pub doubted: Option<Box<Allocation>>,
}

impl Placed {
    /// Whether this is the record that the placement stands for.
    pub(crate) fn stands_for(&self, record: &Allocation) -> bool {
        match &self.doubted {
            Some(doubted) => **doubted == *record,
            None => self.allocation == *record && !self.guessed,
        }
    }
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PodEntry {
    /// Its slot.
    pub id: PodId,
    /// Its identity.
    pub uid: PodUid,
    /// Its name.
    pub name: PodName,
    /// Which version of its spec this is.
    pub generation: i64,
    /// Its age.
    pub created_at: Timestamp,
    /// Its priority.
    pub priority: i32,
    /// The pod group that it belongs to.
    pub group: Option<PodGroupName>,
    /// Whether it may have others evicted.
    pub preempts: bool,
    /// When it started to run.
    pub started_at: Option<Timestamp>,
    /// Whether it is being deleted to make room for another, or is about to be.
    pub preempted: bool,
    /// Whether the API server once refused to delete it when it was to make room: others go first from then on.
    pub kept: bool,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Its class.
    pub class: ClassId,
    /// Closed scheduling gates.
    pub gates: Box<[String]>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What it takes of a node.
    pub charge: Arc<Charge>,
    /// What others see of it.
    pub presence: Presence,
    /// Container names and kinds, to read records with; empty where no container asks for a GPU.
    pub containers: Arc<[(String, ContainerKind)]>,
    /// Where it is.
    pub placed: Option<Placed>,
    /// What its placement does to volumes, and for which node, until the objects say it.
    pub plan: Option<Box<(Arc<str>, VolumePlan)>>,
}

impl PodEntry {
    pub(super) fn new(pod: &Pod, class: ClassId, spec: &ClassSpec) -> Self {
        let asks_gpu = pod.containers.iter().any(|c| !c.gpu.is_empty())
            || pod.assignment.as_ref().is_some_and(|a| a.allocation.is_some());
        let containers: Vec<_> = pod.containers.iter().filter(|_| asks_gpu).map(|c| (c.name.clone(), c.kind)).collect();
        Self {
            id: PodId::from_index(0),
            uid: pod.uid.clone(),
            name: PodName { namespace: pod.namespace.clone(), name: pod.name.clone() },
            generation: pod.generation,
            created_at: pod.created_at,
            priority: pod.priority,
            group: pod.group.clone(),
            preempts: pod.preempts,
            started_at: pod.started_at,
            preempted: pod.preempted,
            kept: false,
            labels: Arc::new(pod.labels.clone()),
            class,
            gates: pod.gates.clone().into(),
            terminating: pod.terminating,
            charge: spec.charge.clone(),
            presence: Presence::of(spec, class, pod.terminating, pod.priority),
            containers: containers.into(),
            placed: None,
            plan: None,
        }
    }

    /// Whether it goes: it is being deleted, or about to be to make room for another.
    pub fn is_leaving(&self) -> bool {
        self.terminating || self.preempted
    }

    pub(super) fn in_slot(mut self, id: PodId) -> Self {
        self.id = id;
        self
    }

    /// Takes a new version of the pod. What its node counts of a placed pod changes by `State::recharge`.
    pub(super) fn update(&mut self, pod: &Pod, class: ClassId, spec: &ClassSpec) {
        let mut fresh = Self::new(pod, class, spec);
        if self.placed.is_some() {
            (fresh.charge, fresh.presence) = (self.charge.clone(), self.presence);
        }
        if fresh.labels == self.labels {
            fresh.labels = self.labels.clone();
        }
        // A version from before the eviction does not undo it.
        fresh.preempted |= self.preempted;
        fresh.kept = self.kept;
        *self = Self { id: self.id, placed: self.placed.take(), plan: self.plan.take(), ..fresh };
    }
}
