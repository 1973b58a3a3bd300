//! A pod, as the cluster says it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{
    Allocation, Demand, ModelPattern, NodeSelector, PodAffinity, PodGroupName, PodUid, PodVolume, PreferredTerm,
    RequestError, ResourceList, Timestamp, Toleration, TopologySpreadConstraint,
};

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ContainerKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: runs from its turn to the end of the pod.
    Sidecar,
    /// Runs beside the others.
    App,
}

/// A host port that a container binds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// Host address; empty means `0.0.0.0`.
    pub ip: String,
    /// Protocol; empty means `TCP`.
    pub protocol: String,
    /// The port, never 0.
    pub port: u16,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// `resources.requests`, without resources that no node offers as such (`gpu-scheduler/…`).
    pub requests: ResourceList,
    /// `status…allocatedResources` of a placed pod.
    pub allocated: Option<ResourceList>,
    /// `status…resources.requests` of a placed pod.
    pub actuated: Option<ResourceList>,
    /// Host ports.
    pub ports: Vec<HostPort>,
    /// What it asks of GPUs.
    pub gpu: Vec<Demand>,
}

impl Container {
    /// A container that asks for `requests`.
    pub fn new(name: impl Into<String>, kind: ContainerKind, requests: ResourceList) -> Self {
        Self { name: name.into(), kind, requests, allocated: None, actuated: None, ports: Vec::new(), gpu: Vec::new() }
    }
}

/// Pod-level resources (gate `PodLevelResources`, and its in-place resize).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PodLevel {
    /// `spec.resources.requests`.
    pub requests: ResourceList,
    /// `status.allocatedResources`.
    pub allocated: Option<ResourceList>,
    /// `status.resources.requests`.
    pub actuated: Option<ResourceList>,
}

/// Where a pod was bound, and what its record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// `spec.nodeName`.
    pub node: String,
    /// The allocation record; `None` where whoever bound it left none (or left nonsense).
    pub allocation: Option<Allocation>,
}

/// A pod that is not finished. A pod that succeeded or failed is reported as deleted: it holds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// UID: the pod's identity.
    pub uid: PodUid,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// `metadata.creationTimestamp`: a pod's age in the queue.
    pub created_at: Timestamp,
    /// `metadata.generation`: which version of the spec this is; 0 where nobody said.
    pub generation: i64,
    /// `spec.schedulerName`.
    pub scheduler: String,
    /// `spec.priority`.
    pub priority: i32,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Containers, init containers and sidecars first, in order.
    pub containers: Vec<Container>,
    /// Pod-level resources.
    pub pod_level: PodLevel,
    /// `spec.overhead`.
    pub overhead: ResourceList,
    /// Whether the pod's resize is refused as `Infeasible`: then its spec does not count.
    pub resize_infeasible: bool,
    /// Only this node will do: what `spec.nodeName` says of a pod that is asked about, not running.
    pub required_node: Option<String>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity.
    pub required_affinity: Option<NodeSelector>,
    /// Preferred node affinity.
    pub preferred_affinity: Vec<PreferredTerm>,
    /// Affinity to other pods.
    pub pod_affinity: PodAffinity,
    /// Anti-affinity to other pods.
    pub pod_anti_affinity: PodAffinity,
    /// `spec.topologySpreadConstraints`.
    pub spread: Vec<TopologySpreadConstraint>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Images of all containers and image volumes, as written.
    pub images: Vec<String>,
    /// Node features that the spec cannot do without, sorted.
    pub node_features: Vec<String>,
    /// The controller that owns it: kind and name.
    pub controller: Option<(String, String)>,
    /// The pod group that it belongs to.
    pub group: Option<PodGroupName>,
    /// Names of its resource claims and of the templates that they are made from.
    pub resource_claims: Vec<String>,
    /// Volumes that matter to scheduling, in order.
    pub volumes: Vec<PodVolume>,
    /// Whether it may have others evicted (`preemptionPolicy` is not `Never`).
    pub preempts: bool,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<String>,
    /// `status.startTime`.
    pub started_at: Option<Timestamp>,
    /// Whether it is being deleted to make room for another (condition `DisruptionTarget`, reason
    /// `PreemptionByScheduler`).
    pub preempted: bool,
    /// Names of scheduling gates that are still closed.
    pub gates: Vec<String>,
    /// Which GPU models will do.
    pub models: ModelPattern,
    /// If not empty, only these cards will do.
    pub uuids: Vec<String>,
    /// Why the GPU request makes no sense, if it does not.
    pub request_error: Option<RequestError>,
    /// Where it is bound, if it is.
    pub assignment: Option<Assignment>,
    /// The message of its condition `PodScheduled=False`, if it has one: what was said before is not said again.
    pub said: Option<String>,
    /// Whether it is being deleted. It holds what it has until it is gone, and is not scheduled.
    pub terminating: bool,
}

impl Pod {
    /// A pod without requests, wants or placement.
    pub fn new(uid: &str, namespace: &str, name: &str) -> Self {
        Self {
            uid: uid.into(),
            namespace: namespace.into(),
            name: name.into(),
            generation: 0,
            created_at: Timestamp::default(),
            scheduler: String::new(),
            priority: 0,
            labels: BTreeMap::new(),
            containers: Vec::new(),
            pod_level: PodLevel::default(),
            overhead: ResourceList::new(),
            resize_infeasible: false,
            required_node: None,
            node_selector: BTreeMap::new(),
            required_affinity: None,
            preferred_affinity: Vec::new(),
            pod_affinity: PodAffinity::default(),
            pod_anti_affinity: PodAffinity::default(),
            spread: Vec::new(),
            tolerations: Vec::new(),
            images: Vec::new(),
            node_features: Vec::new(),
            controller: None,
            group: None,
            resource_claims: Vec::new(),
            volumes: Vec::new(),
            preempts: true,
            nominated_node: None,
            started_at: None,
            preempted: false,
            gates: Vec::new(),
            models: ModelPattern::default(),
            uuids: Vec::new(),
            request_error: None,
            assignment: None,
            said: None,
            terminating: false,
        }
    }
}
