//! The status of a `GPUNodeState`, as it is written. What is not known is left out.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::TopologyManager;
use serde::Serialize;

/// The annotations of the node.
pub type Annotations = BTreeMap<String, String>;

/// `status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// When it was written, RFC 3339. The writer sets it.
    pub updated_at: String,
    /// The driver's version.
    pub driver_version: String,
    /// Who writes.
    pub agent: AgentStatus,
    /// How the node's kubelet aligns devices to NUMA nodes, where the agent was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_manager: Option<TopologyManagerStatus>,
    /// How many cards there are.
    pub gpus: usize,
    /// Memory of all cards.
    #[serde(rename = "totalMemoryMiB")]
    pub total_memory_mib: u64,
    /// Memory in use on all cards that say.
    #[serde(rename = "usedMemoryMiB")]
    pub used_memory_mib: u64,
    /// The cards.
    pub devices: Vec<DeviceStatus>,
}

impl Status {
    /// Makes of it a report of cards that cannot be asked: what was measured is no longer known, and none takes anything.
    /// The sum over the node stays what it was last: nothing would be taken for nothing used.
    pub fn silence(&mut self, reason: &str) {
        for device in &mut self.devices {
            device.used_memory_mib = None;
            device.foreign_memory_mib = None;
            device.utilization = None;
            device.temperature_c = None;
            device.power_w = None;
            device.health = "Unhealthy";
            device.health_reason = Some(reason.to_owned());
            for holder in &mut device.holders {
                holder.used_mib = None;
            }
        }
    }
}

/// Who writes: with two agents on one node, each sees the other here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Another one for each process.
    pub instance: String,
    /// When the process began, RFC 3339.
    pub started_at: String,
    /// Its version.
    pub version: String,
    /// Whether it hands out the node's devices by the scheduler's records.
    pub hands_out: bool,
}

/// kubelet's topology manager, in its own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TopologyManagerStatus {
    /// `topologyManagerPolicy`.
    pub policy: &'static str,
    /// `topologyManagerScope`.
    pub scope: &'static str,
}

impl From<TopologyManager> for TopologyManagerStatus {
    fn from(known: TopologyManager) -> Self {
        Self { policy: known.policy.as_str(), scope: known.scope.as_str() }
    }
}

/// A card.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// NVML's index.
    pub index: u32,
    /// UUID.
    pub uuid: String,
    /// Product, as the label has it.
    pub model: String,
    /// Memory.
    #[serde(rename = "totalMemoryMiB")]
    pub total_memory_mib: u64,
    /// Measured memory.
    #[serde(rename = "usedMemoryMiB", skip_serializing_if = "Option::is_none")]
    pub used_memory_mib: Option<u64>,
    /// Of it, by processes that no pod explains.
    #[serde(rename = "foreignMemoryMiB", skip_serializing_if = "Option::is_none")]
    pub foreign_memory_mib: Option<u64>,
    /// What containers hold.
    pub holders: Vec<HolderStatus>,
    /// Percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    #[serde(rename = "temperatureC", skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    /// Watts, in tenths at most.
    #[serde(rename = "powerW", skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// `Healthy` or `Unhealthy`.
    pub health: &'static str,
    /// Why it is unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_reason: Option<String>,
    /// `exclusive`, `shared`, `mps` or `mig`.
    pub mode: &'static str,
    /// NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Direct connections to other cards.
    pub links: Vec<LinkStatus>,
    /// MIG devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<PartitionStatus>>,
}

/// What a container holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderStatus {
    /// UID of its pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Its name; left out where only the pod is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// What the record grants.
    #[serde(rename = "grantedMiB", skip_serializing_if = "Option::is_none")]
    pub granted_mib: Option<u64>,
    /// What is measured.
    #[serde(rename = "usedMiB", skip_serializing_if = "Option::is_none")]
    pub used_mib: Option<u64>,
}

/// A direct connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    /// UUID of the other card.
    pub peer: String,
    /// `nvlink`, or `nvswitch` where a switch is between.
    pub kind: &'static str,
    /// Lanes.
    pub lanes: u32,
}

/// A MIG device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionStatus {
    /// Profile, such as `1g.10gb`.
    pub profile: String,
    /// UUID.
    pub uuid: String,
    /// Where it begins on the card's memory.
    pub start: u32,
    /// `Unhealthy`, or left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<&'static str>,
    /// Why it is unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_reason: Option<String>,
}
