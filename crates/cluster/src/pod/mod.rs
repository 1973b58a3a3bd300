//! A Kubernetes pod as a fact for the engine.

mod affinity;
mod features;
mod relations;
mod resources;

use std::sync::Arc;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{Allocation, Assignment, Pod, PodGroupName, PodUid, Timestamp};

use crate::allocation;
use crate::dialect::dialect_of;
use crate::objects;
use crate::problem::Finding;
use crate::storage::pod_volumes;
use crate::time;

pub(crate) use affinity::{effect, node_selector, unknown_effect};

/// Kubernetes' own scheduler: whose pods those are that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Namespace of objects that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// What a pod object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodFact {
    /// The pod waits or runs.
    Live(Box<Pod>),
    /// The pod succeeded or failed: it holds nothing any more.
    Finished(FinishedPod),
}

/// A pod that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedPod {
    /// UID.
    pub uid: PodUid,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl PodFact {
    /// The pod's UID.
    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Live(pod) => &pod.uid,
            Self::Finished(pod) => &pod.uid,
        }
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Live(pod) => &pod.namespace,
            Self::Finished(pod) => &pod.namespace,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Live(pod) => &pod.name,
            Self::Finished(pod) => &pod.name,
        }
    }

    /// When it was created; the epoch where nobody said.
    pub fn created_at(&self) -> Timestamp {
        match self {
            Self::Live(pod) => pod.created_at,
            Self::Finished(pod) => pod.created_at,
        }
    }

    /// Gives the pod another UID.
    pub(crate) fn set_uid(&mut self, uid: PodUid) {
        match self {
            Self::Live(pod) => pod.uid = uid,
            Self::Finished(pod) => pod.uid = uid,
        }
    }
}

impl From<PodFact> for Event {
    fn from(fact: PodFact) -> Self {
        match fact {
            PodFact::Live(pod) => Self::PodApplied(pod),
            PodFact::Finished(pod) => Self::PodDeleted { uid: pod.uid },
        }
    }
}

/// The UID of a pod whose object states none, as in a manifest that no API server has seen. No real UID
/// has a slash in it.
pub(crate) fn made_up_uid(namespace: &str, name: &str) -> PodUid {
    PodUid::from(format!("{namespace}/{name}").as_str())
}

/// Turns a pod object into a fact. What is wrong with it goes to `findings`; the pod counts all the same,
/// and one whose request cannot be read in full carries a `request_error`, so that it is not placed by half
/// of what it asks. `O(size of the object)`.
pub fn read_pod(object: objects::Pod, findings: &mut Vec<Finding>) -> PodFact {
    let dialect = dialect_of(&object);
    let objects::Pod { metadata, spec, status } = &object;
    let namespace = metadata.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(DEFAULT_NAMESPACE);
    let name = metadata.name.as_str();
    let uid = match metadata.uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => PodUid::from(uid),
        None => made_up_uid(namespace, name),
    };
    let created_at = time::read(metadata.creation_timestamp.as_deref(), "metadata.creationTimestamp", findings);
    let created_at = created_at.unwrap_or_default();
    if matches!(status.phase.as_str(), "Succeeded" | "Failed") {
        return PodFact::Finished(FinishedPod { uid, namespace: namespace.into(), name: name.into(), created_at });
    }

    let mut pod = Pod::new("", namespace, name);
    pod.uid = uid;
    pod.created_at = created_at;
    pod.generation = metadata.generation;
    let scheduler = if spec.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &spec.scheduler_name };
    pod.scheduler = scheduler.to_owned();
    pod.priority = spec.priority;
    // Whatever stands there, even unreadably: the API server sets it only on pods that are on their way out.
    pod.terminating = metadata.deletion_timestamp.is_some();

    let ask = dialect.read(&object);
    let resources = resources::read(&object, |name| !dialect.is_only_asked(name), ask.demands, findings);
    pod.containers = resources.containers;
    pod.pod_level = resources.pod_level;
    pod.overhead = resources.overhead;
    pod.request_error = ask.error.or(resources.error);
    pod.resize_infeasible = status
        .conditions
        .iter()
        .any(|c| c.kind == "PodResizePending" && c.status == "True" && c.reason == "Infeasible");
    pod.said =
        status.conditions.iter().find(|c| c.kind == "PodScheduled" && c.status == "False").map(|c| c.message.clone());
    pod.models = ask.models;
    pod.uuids = ask.uuids;

    (pod.required_affinity, pod.preferred_affinity) = affinity::node_affinity(&spec.affinity.node_affinity, findings);
    pod.tolerations = affinity::tolerations(&spec.tolerations, findings);
    let affinity = &spec.affinity;
    pod.pod_affinity = relations::pod_affinity(&affinity.pod_affinity, "spec.affinity.podAffinity", findings);
    pod.pod_anti_affinity =
        relations::pod_affinity(&affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity", findings);
    pod.spread = relations::spread(&spec.topology_spread_constraints, findings);
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|c| &c.image);
    let images = containers.chain(spec.volumes.iter().filter_map(|v| v.image.as_ref()).map(|i| &i.reference));
    pod.images = images.filter(|image| !image.is_empty()).cloned().collect();
    pod.node_features = features::needed(spec);
    let group = spec.scheduling_group.pod_group_name.as_deref().filter(|name| !name.is_empty());
    pod.group = group.map(|name| PodGroupName { namespace: namespace.into(), name: name.into() });
    pod.volumes = pod_volumes(name, &spec.volumes);
    pod.resource_claims = spec.resource_claims.iter().map(|claim| claim.name.clone()).collect();
    pod.preempts = spec.preemption_policy != "Never";
    let owner = metadata.owner_references.iter().find(|owner| owner.controller);
    pod.controller = owner.map(|owner| (owner.kind.clone(), owner.name.clone()));
    pod.nominated_node = Some(status.nominated_node_name.clone()).filter(|node| !node.is_empty());
    pod.started_at = time::read(status.start_time.as_deref(), "status.startTime", findings);
    // The condition alone means nothing: who wrote it may have gone before it deleted the pod.
    let target = |c: &objects::PodCondition| {
        c.kind == "DisruptionTarget" && c.status == "True" && c.reason == "PreemptionByScheduler"
    };
    pod.preempted = pod.terminating && status.conditions.iter().any(target);
    pod.assignment = (!spec.node_name.is_empty())
        .then(|| Assignment { node: spec.node_name.clone(), allocation: record(metadata, findings) });

    let objects::Pod { metadata, spec, .. } = object;
    pod.labels = metadata.labels;
    pod.node_selector = spec.node_selector;
    pod.gates = spec.scheduling_gates.into_iter().map(|gate| gate.name).collect();
    PodFact::Live(Box::new(pod))
}

/// The record of a bound pod. Only of a bound one: the annotation of a manifest that somebody copied from a
/// running pod means nothing.
fn record(metadata: &objects::ObjectMeta, findings: &mut Vec<Finding>) -> Option<Allocation> {
    let text = metadata.annotations.get(allocation::ANNOTATION)?;
    match allocation::parse(text) {
        Ok(allocation) => Some(allocation),
        Err(error) => {
            findings.push(Finding::new(
                format!("metadata.annotations.{}", allocation::ANNOTATION),
                format!("{error}; the pod counts, and its devices are guessed"),
                "restart the pod, or write the record as documented",
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests;
