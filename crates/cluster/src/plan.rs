//! `plan`: what would happen to a dump. Drives the engine until it rests, carrying every bind out at once.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_engine::ledger::Card;
use gpu_scheduler_engine::model::{Allocation, ContainerAllocation, DeviceGrant, PodUid, Timestamp};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Action, Config, Engine, Event, Notice, Outcome, PodPhase, Step};
use serde::Serialize;

use crate::allocation;
use crate::dump::Dump;
use crate::pod::PodFact;

/// The answer. Its JSON form is a promise (see `docs/plan.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Every pod that holds something or waits for us, in the order of submission.
    pub pods: Vec<PlannedPod>,
    /// Pods that would be evicted.
    pub evictions: Vec<Eviction>,
    /// Pods that would be moved.
    pub moves: Vec<Move>,
    /// Sums.
    pub summary: Summary,
    /// What people should know: overcommitted cards, devices that are a guess.
    pub notices: Vec<String>,
}

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Phase {
    /// It gets a node.
    Scheduled,
    /// It waits.
    Pending,
    /// It loses its node.
    Evicted,
    /// It was bound already.
    Running,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Pending => "Pending",
            Self::Evicted => "Evicted",
            Self::Running => "Running",
        }
    }
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What becomes of it.
    pub phase: Phase,
    /// Its node.
    pub node: Option<String>,
    /// Its devices.
    pub gpus: Vec<PlannedGpu>,
    /// Whether the devices are a guess, because no record says them.
    pub assumed: bool,
    /// The text of its condition `PodScheduled`, or a remark.
    pub message: String,
}

/// One device of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedGpu {
    /// The container.
    pub container: String,
    /// UUID of the card.
    pub uuid: String,
    /// Its index on the node.
    pub index: u32,
    /// How it is held: `whole`, `share`, `mig` or `seat`; null where the record does not say.
    pub kind: Option<&'static str>,
    /// Memory of it.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u64,
    /// Compute of it.
    pub compute_percent: u32,
    /// UUID of the MIG slice.
    pub mig: Option<String>,
}

/// A pod that loses its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Why, in a word.
    pub reason: String,
    /// For whom: namespace and name.
    pub by: String,
}

/// A pod that changes its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Where it is.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// Why, in a word.
    pub reason: String,
}

/// Sums over the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Pods that get a node.
    pub scheduled: usize,
    /// Pods that wait.
    pub pending: usize,
    /// Pods that lose their node.
    pub evicted: usize,
    /// Cards of the cluster.
    pub gpus_total: usize,
    /// Thousandths of a card that are given out, running pods included.
    pub gpu_allocated_milli: u64,
}

/// Plans a dump at the time `now`.
pub fn plan(dump: &Dump, config: Config, now: Timestamp) -> Plan {
    let mut engine = Engine::new(config);
    for node in &dump.nodes {
        engine.handle(now, Event::NodeApplied(Box::new(node.clone())));
    }
    for report in &dump.reports {
        let mut report = report.clone();
        if report.updated_at == Timestamp::default() {
            report.updated_at = now;
        }
        engine.handle(now, Event::DevicesReported(Box::new(report)));
    }
    for event in &dump.around {
        engine.handle(now, event.clone());
    }
    // What runs is a fact before anything is decided.
    let live = || dump.pods.iter().filter_map(|p| if let PodFact::Live(pod) = p { Some(pod) } else { None });
    let bound = live().filter(|p| p.assignment.is_some());
    for object in &dump.storage {
        engine.handle(now, Event::StorageApplied(Box::new(object.clone())));
    }
    for pod in bound.chain(live().filter(|p| p.assignment.is_none())) {
        let mut pod = pod.clone();
        if dump.storage.is_empty() {
            // A dump of nodes and pods alone says nothing of claims, and it would be wrong to say that there are none.
            pod.volumes.clear();
        }
        engine.handle(now, Event::PodApplied(pod));
    }
    let outcome = carry_out(&mut engine, now);
    let planned = |pod: &PodUid| planned_pod(&engine, pod, &outcome);
    let pods: Vec<PlannedPod> = live().filter_map(|p| planned(&p.uid)).collect();
    let count = |phase| pods.iter().filter(|p| p.phase == phase).count();
    let cards = || engine.state().live_nodes().flat_map(|n| n.ledger().cards());
    let summary = Summary {
        scheduled: count(Phase::Scheduled),
        pending: count(Phase::Pending),
        evicted: count(Phase::Evicted),
        gpus_total: cards().filter(|c| c.present()).count(),
        gpu_allocated_milli: cards().map(Card::held).map(|milli| u64::from(milli.0)).sum(),
    };
    let notices = outcome.notices.iter().map(Notice::to_string).collect();
    Plan { pods, evictions: outcome.evictions, moves: Vec::new(), summary, notices }
}

#[derive(Debug, Default)]
struct Carried {
    scheduled: BTreeSet<PodUid>,
    messages: BTreeMap<PodUid, String>,
    notices: Vec<Notice>,
    evictions: Vec<Eviction>,
}

fn carry_out(engine: &mut Engine, now: Timestamp) -> Carried {
    let mut carried = Carried::default();
    loop {
        match engine.poll(now) {
            Step::Act(Action::Bind { ticket, uid, .. }) => {
                carried.messages.remove(&uid);
                carried.scheduled.insert(uid);
                engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
            }
            Step::Act(Action::PreBind { ticket, .. }) => {
                engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
            }
            Step::Act(Action::SetCondition { uid, condition, .. }) => {
                carried.messages.insert(uid, condition.message.to_string());
            }
            Step::Act(Action::Nominate { .. }) => {}
            // Somebody of higher priority needs the room: nobody else binds while a dump is planned.
            Step::Act(Action::Evict { uid, pod, reason, preemptor, .. }) => {
                carried.evictions.push(Eviction {
                    namespace: pod.namespace.to_string(),
                    name: pod.name.to_string(),
                    reason: reason.to_string(),
                    by: preemptor.map(|(_, name)| name.to_string()).unwrap_or_default(),
                });
                engine.handle(now, Event::PodDeleted { uid });
            }
            Step::Act(Action::Report(notice)) => carried.notices.push(notice),
            Step::Busy => {}
            Step::Rest => return carried,
        }
    }
}

/// `None` for pods that are none of our business: pending ones of other schedulers.
fn planned_pod(engine: &Engine, uid: &PodUid, carried: &Carried) -> Option<PlannedPod> {
    let explanation = engine.explain(uid)?;
    let (namespace, name) = (explanation.pod.namespace.to_string(), explanation.pod.name.to_string());
    let message = carried.messages.get(uid).cloned().unwrap_or_default();
    let mut pod =
        PlannedPod { namespace, name, phase: Phase::Pending, node: None, gpus: Vec::new(), assumed: false, message };
    match explanation.phase {
        PodPhase::Placed { node, allocation, guessed, .. } => {
            pod.phase = if carried.scheduled.contains(uid) { Phase::Scheduled } else { Phase::Running };
            pod.gpus = gpus(&allocation);
            pod.assumed = guessed;
            if guessed {
                pod.message =
                    "its GPUs are assumed: it has no annotation gpu-scheduler/allocation that can be read".to_owned();
            } else if engine.state().node_named(&node).is_none_or(|n| n.facts().is_none()) {
                pod.message = format!("its node {node} is not in the dump");
            }
            pod.node = Some(node.to_string());
        }
        PodPhase::Waiting(gpu_scheduler_engine::Place::Gated) => pod.message = gates(engine.state(), uid),
        PodPhase::Waiting(_) => {}
        PodPhase::Terminating => pod.message = "it is being deleted, and is not scheduled".to_owned(),
    }
    Some(pod)
}

fn gates(state: &State, uid: &PodUid) -> String {
    let gates = state.pod_of(uid).map(|p| p.gates.join(", ")).unwrap_or_default();
    format!("Scheduling is blocked due to non-empty scheduling gates: {gates}")
}

fn gpus(allocation: &Allocation) -> Vec<PlannedGpu> {
    let device = |container: &ContainerAllocation, d: &DeviceGrant| PlannedGpu {
        container: container.name.clone(),
        kind: container.kind.map(allocation::kind_name),
        uuid: d.uuid.clone(),
        index: d.index,
        memory_mib: d.memory.0,
        compute_percent: d.compute.0,
        mig: d.mig.clone(),
    };
    allocation.containers.iter().flat_map(|c| c.devices.iter().map(|d| device(c, d))).collect()
}
