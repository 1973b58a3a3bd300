//! GPUs of a node, as an agent or the node object describes them.

use serde::{Deserialize, Serialize};

use crate::model::{Mib, PodUid, Timestamp, TopologyManager};

/// Whether a card may be given to anybody.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Health {
    /// It works.
    #[default]
    Healthy,
    /// It takes nothing new; the text says why.
    Unhealthy(String),
}

/// How a card is divided, besides by memory and compute on demand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Partitioning {
    /// Whole, or shared by memory and compute: an idle card may change between the two on demand.
    #[default]
    OnDemand,
    /// Time-sliced: so many seats (`nvidia.com/gpu.replicas`), each charged its part of the card.
    TimeSliced {
        /// Seats a card, at least 2.
        seats: u32,
    },
    /// MIG: exactly these slices exist and nothing else can be given out.
    Mig(Vec<Partition>),
}

/// One MIG slice that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Partition {
    /// The profile as in its resource name, for example `1g.10gb`.
    pub profile: String,
    /// `MIG-…`, or a made-up name where it is not known.
    pub uuid: String,
    /// Where on the card's memory axis it starts, if known.
    pub start: Option<u32>,
}

impl Partition {
    /// Compute slices (`1` of `1g.10gb`) and memory in GB (`10`) that the profile's name states
    /// (NVIDIA MIG user guide: `<compute>g.<memory>gb[+attributes]`).
    pub fn nominal(profile: &str) -> Option<(u32, u64)> {
        let (compute, rest) = profile.split_once("g.")?;
        let (memory, _) = rest.split_once("gb")?;
        // A compute instance's profile is written `1c.2g.20gb`; its GPU instance is what counts.
        let compute = compute.rsplit_once("c.").map_or(compute, |(_, gpu_instance)| gpu_instance);
        Some((compute.parse().ok()?, memory.parse().ok()?))
    }
}

/// A direct connection to another card.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Link {
    /// UUID of the card at the other end.
    pub peer: String,
    /// `nvlink`, `pcie`, …
    pub kind: String,
    /// Lanes, or links of an NVLink bundle.
    pub lanes: u32,
}

/// One card: what it is, not who uses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CardSpec {
    /// `GPU-…`, or `<node>/gpu-<index>` where it is not known.
    pub uuid: String,
    /// NVML index on its node.
    pub index: u32,
    /// Product name, as the label `nvidia.com/gpu.product`.
    pub model: String,
    /// Memory; `None` where nobody said. Such a card serves whole-card requests only.
    pub memory: Option<Mib>,
    /// NUMA node.
    pub numa: Option<u32>,
    /// Connections to other cards of the node.
    pub links: Vec<Link>,
    /// Whether it works.
    pub health: Health,
    /// How it is divided.
    pub partitioning: Partitioning,
}

impl CardSpec {
    /// A healthy card that may be whole or shared.
    pub fn new(uuid: impl Into<String>, index: u32, model: impl Into<String>, memory: Option<Mib>) -> Self {
        Self {
            uuid: uuid.into(),
            index,
            model: model.into(),
            memory,
            numa: None,
            links: Vec::new(),
            health: Health::Healthy,
            partitioning: Partitioning::OnDemand,
        }
    }

    /// The name given to a card whose UUID nobody reported.
    pub fn made_up_uuid(node: &str, index: u32) -> String {
        format!("{node}/gpu-{index}")
    }
}

/// What a container really holds on a card, by the agent's word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The pod.
    pub pod: PodUid,
    /// Measured memory.
    pub used: Mib,
}

/// A card with its measured use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// The card.
    pub card: CardSpec,
    /// Measured memory of all processes.
    pub used: Mib,
    /// Of it, by processes that no pod explains.
    pub foreign: Mib,
    /// Pods with processes on the card.
    pub holders: Vec<Holder>,
}

/// A `GPUNodeState`: the agent's report of one node. It outranks what the node object says of its cards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The node's name.
    pub node: String,
    /// When the agent wrote it.
    pub updated_at: Timestamp,
    /// Whether the agent hands out devices as records say, so that pods must not come to kubelet in such a way that their
    /// records could be mixed up.
    #[serde(default)]
    pub steered: bool,
    /// How the node's kubelet aligns devices to NUMA nodes, where the agent knows.
    #[serde(default)]
    pub topology_manager: Option<TopologyManager>,
    /// The cards.
    pub devices: Vec<DeviceStatus>,
}
