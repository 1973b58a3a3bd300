//! `v1` Pod.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient::{Quantities, RawQuantity, list, nullable, texts};
use super::meta::ObjectMeta;
use super::pod_affinity::{PodAffinity, TopologySpreadConstraint};
use super::storage::{Disk, DiskKind, first_disk};

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

/// `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Node that the pod is bound to.
    #[serde(deserialize_with = "nullable")]
    pub node_name: String,
    /// Who schedules it; empty means Kubernetes' default.
    #[serde(deserialize_with = "nullable")]
    pub scheduler_name: String,
    /// Priority, as admission resolved it.
    #[serde(deserialize_with = "nullable")]
    pub priority: i32,
    /// Whether it uses its node's network: then its container ports are host ports.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
    /// Whether it runs in its node's user namespace.
    pub host_users: Option<bool>,
    /// `Never` keeps it from having others evicted.
    #[serde(deserialize_with = "nullable")]
    pub preemption_policy: String,
    /// How it is to be spread.
    #[serde(deserialize_with = "list")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// The group that it belongs to.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_group: PodSchedulingGroup,
    /// Claims of devices.
    #[serde(deserialize_with = "list")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// Volumes.
    #[serde(deserialize_with = "list")]
    pub volumes: Vec<Volume>,
    /// Init containers and sidecars.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<Container>,
    /// App containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<Container>,
    /// Pod-level resources.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// What the runtime class adds.
    #[serde(deserialize_with = "nullable")]
    pub overhead: Quantities,
    /// Labels that the node must have.
    #[serde(deserialize_with = "texts")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity.
    #[serde(deserialize_with = "nullable")]
    pub affinity: Affinity,
    /// Tolerations.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<Toleration>,
    /// Gates that are closed.
    #[serde(deserialize_with = "list")]
    pub scheduling_gates: Vec<SchedulingGate>,
}

/// `spec.schedulingGroup`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSchedulingGroup {
    /// Name of the pod group, in the pod's namespace.
    pub pod_group_name: Option<String>,
}

/// A claim of devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// Its name within the pod.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// A volume, as far as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name within the pod.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// An image that is mounted.
    pub image: Option<ImageVolume>,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimVolume>,
    /// A claim that is made for the pod.
    pub ephemeral: Option<EphemeralVolume>,
    /// A disk of Google.
    pub gce_persistent_disk: Option<Disk>,
    /// A disk of Amazon.
    pub aws_elastic_block_store: Option<Disk>,
    /// A disk of Azure.
    pub azure_disk: Option<Disk>,
    /// Files of Azure.
    pub azure_file: Option<Disk>,
    /// A disk of OpenStack.
    pub cinder: Option<Disk>,
    /// A volume of Portworx.
    pub portworx_volume: Option<Disk>,
    /// A volume of vSphere.
    pub vsphere_volume: Option<Disk>,
    /// A disk by iSCSI.
    pub iscsi: Option<Disk>,
    /// An image of Ceph.
    pub rbd: Option<Disk>,
}

impl Volume {
    /// The disk that it names.
    pub fn disk(&self) -> Option<(DiskKind, &Disk)> {
        first_disk!(self)
    }
}

/// A claim that is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimVolume {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub claim_name: String,
}

/// A claim that is made for the pod: that it is there is all that matters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct EphemeralVolume {}

/// An image that is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageVolume {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub reference: String,
}

/// A rule for when a container ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    /// What happens, as text.
    #[serde(deserialize_with = "nullable")]
    pub action: String,
}

/// Where a volume is mounted, as far as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeMount {
    /// Options of the mount.
    #[serde(deserialize_with = "list")]
    pub bind_mount_options: Vec<String>,
}

/// A container of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Image.
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// What happens when it ends.
    #[serde(deserialize_with = "list")]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Where volumes are mounted.
    #[serde(deserialize_with = "list")]
    pub volume_mounts: Vec<VolumeMount>,
    /// `Always` on an init container makes it a sidecar.
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: String,
    /// Resources.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ContainerPort>,
}

/// Requests and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// What is set aside.
    #[serde(deserialize_with = "nullable")]
    pub requests: Quantities,
    /// What it may not exceed.
    #[serde(deserialize_with = "nullable")]
    pub limits: Quantities,
}

impl ResourceRequirements {
    /// The amount of a device-like resource: its limit, else its request. For those the two are equal
    /// wherever both are given.
    pub fn device(&self, name: &str) -> Option<&RawQuantity> {
        self.limits.get(name).or_else(|| self.requests.get(name))
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// Port in the container.
    #[serde(deserialize_with = "nullable")]
    pub container_port: i64,
    /// Port on the host; 0 where there is none.
    #[serde(deserialize_with = "nullable")]
    pub host_port: i64,
    /// Address on the host.
    #[serde(rename = "hostIP", deserialize_with = "nullable")]
    pub host_ip: String,
    /// Protocol.
    #[serde(deserialize_with = "nullable")]
    pub protocol: String,
}

/// `spec.affinity`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Node affinity.
    #[serde(deserialize_with = "nullable")]
    pub node_affinity: NodeAffinity,
    /// Affinity to other pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_affinity: PodAffinity,
    /// Anti-affinity to other pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_anti_affinity: PodAffinity,
}

/// Node affinity.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinity {
    /// What must hold.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// What had better hold.
    #[serde(deserialize_with = "list")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredSchedulingTerm>,
}

/// Terms of which one must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms.
    #[serde(deserialize_with = "list")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// On labels.
    #[serde(deserialize_with = "list")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// On fields.
    #[serde(deserialize_with = "list")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// Label key or field name.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// Operator, as text.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// Values.
    #[serde(deserialize_with = "list")]
    pub values: Vec<String>,
}

/// A term with a weight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreferredSchedulingTerm {
    /// Weight, 1 to 100.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    /// The term.
    #[serde(deserialize_with = "nullable")]
    pub preference: NodeSelectorTerm,
}

/// A toleration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// Key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// Operator, as text; empty means `Equal`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// Value.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// Effect, as text; empty means any.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

/// A scheduling gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGate {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// `status`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// Node on which room is being made for it.
    #[serde(deserialize_with = "nullable")]
    pub nominated_node_name: String,
    /// When it started to run, RFC 3339.
    pub start_time: Option<String>,
    /// Phase.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
    /// Of the app containers.
    #[serde(deserialize_with = "list")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Of init containers and sidecars.
    #[serde(deserialize_with = "list")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<PodCondition>,
    /// What kubelet set aside for the whole pod.
    pub allocated_resources: Option<Quantities>,
    /// What is in force for the whole pod.
    pub resources: Option<ResourceRequirements>,
}

/// Status of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// The container.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// What kubelet set aside.
    pub allocated_resources: Option<Quantities>,
    /// What is in force.
    pub resources: Option<ResourceRequirements>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCondition {
    /// Its type.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    /// Its reason.
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// Its message.
    #[serde(deserialize_with = "nullable")]
    pub message: String,
}
