//! `gpu-scheduler.io/v1alpha1` GPUNodeState: an agent's report of its node's cards.

use serde::Deserialize;

use super::lenient::{list, nullable, optional_list};
use super::meta::ObjectMeta;

/// The report of one node; its name is the node's.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GpuNodeState {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: GpuNodeStateStatus,
}

/// `status`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GpuNodeStateStatus {
    /// When the agent wrote it, RFC 3339.
    pub updated_at: Option<String>,
    /// Who wrote it.
    pub agent: Option<ReportingAgent>,
    /// How the node's kubelet aligns devices to NUMA nodes; `None` where nobody told the agent.
    pub topology_manager: Option<ReportedTopologyManager>,
    /// The cards; `None` where nothing is said about them yet, which is not the same as no cards.
    #[serde(deserialize_with = "optional_list")]
    pub devices: Option<Vec<ReportedDevice>>,
}

/// The agent that reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportingAgent {
    /// Whether it hands out the node's devices as well, by what records say.
    #[serde(deserialize_with = "nullable")]
    pub hands_out: bool,
}

/// kubelet's topology manager, in its own names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportedTopologyManager {
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    #[serde(deserialize_with = "nullable")]
    pub policy: String,
    /// `container` or `pod`.
    #[serde(deserialize_with = "nullable")]
    pub scope: String,
}

/// A card.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportedDevice {
    /// NVML index; the position in the list where it is missing.
    pub index: Option<u32>,
    /// UUID.
    #[serde(deserialize_with = "nullable")]
    pub uuid: String,
    /// Product.
    #[serde(deserialize_with = "nullable")]
    pub model: String,
    /// Memory in MiB.
    #[serde(rename = "totalMemoryMiB")]
    pub total_memory_mib: Option<u64>,
    /// Measured memory in MiB.
    #[serde(rename = "usedMemoryMiB", deserialize_with = "nullable")]
    pub used_memory_mib: u64,
    /// Of it, by processes that no pod explains, in MiB.
    #[serde(rename = "foreignMemoryMiB", deserialize_with = "nullable")]
    pub foreign_memory_mib: u64,
    /// What containers hold.
    #[serde(deserialize_with = "list")]
    pub holders: Vec<ReportedHolder>,
    /// `Healthy` or `Unhealthy`.
    #[serde(deserialize_with = "nullable")]
    pub health: String,
    /// Why it is unhealthy.
    #[serde(deserialize_with = "nullable")]
    pub health_reason: String,
    /// `exclusive`, `shared`, `mps` or `mig`.
    #[serde(deserialize_with = "nullable")]
    pub mode: String,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Connections to other cards.
    #[serde(deserialize_with = "list")]
    pub links: Vec<ReportedLink>,
    /// MIG slices.
    #[serde(deserialize_with = "list")]
    pub partitions: Vec<ReportedPartition>,
}

/// What a container really holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportedHolder {
    /// UID of its pod.
    #[serde(rename = "podUID", deserialize_with = "nullable")]
    pub pod_uid: String,
    /// Measured memory in MiB.
    #[serde(rename = "usedMiB", deserialize_with = "nullable")]
    pub used_mib: u64,
}

/// A direct connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportedLink {
    /// UUID at the other end.
    #[serde(deserialize_with = "nullable")]
    pub peer: String,
    /// `nvlink`, `pcie`, …
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Lanes.
    #[serde(deserialize_with = "nullable")]
    pub lanes: u32,
}

/// A MIG slice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReportedPartition {
    /// Profile, such as `1g.10gb`.
    #[serde(deserialize_with = "nullable")]
    pub profile: String,
    /// UUID.
    #[serde(deserialize_with = "nullable")]
    pub uuid: String,
    /// Start on the card's memory axis.
    pub start: Option<u32>,
}
