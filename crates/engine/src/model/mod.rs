//! What the engine talks about: nodes, GPUs, pods, and what pods ask for.
//!
//! Two layers. What drivers hand in ([`Node`], [`Pod`], [`DeviceReport`]) is plain data with strings,
//! as the cluster says it. What the engine keeps is compiled from it: labels and names interned,
//! requests summed, equal pods folded into one class.

mod allocation;
mod effective;
mod gpu;
pub(crate) mod ids;
mod label_selector;
mod models;
mod node;
mod pod;
mod pod_affinity;
mod pod_group;
mod quantity;
mod request;
mod resources;
mod selector;
mod storage;
mod symbols;
mod taint;
mod time;
mod topology_manager;
mod units;
mod workload;

pub use allocation::{Allocation, ContainerAllocation, DeviceGrant, GrantKind};
pub use effective::{PodRequests, effective_requests, incoming_requests, non_zero_requests};
pub use gpu::{CardSpec, DeviceReport, DeviceStatus, Health, Holder, Link, Partition, Partitioning};
pub use ids::{ClassId, NodeId, PodId, PodName, PodUid, Ticket};
pub use label_selector::{CompiledLabels, LabelSelector};
pub use models::{ModelId, ModelPattern, ModelSet, Models, PatternId};
pub use node::Node;
pub use pod::{Assignment, Container, ContainerKind, HostPort, Pod, PodLevel};
pub use pod_affinity::{
    NodeInclusionPolicy, PodAffinity, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
    WhenUnsatisfiable,
};
pub use pod_group::{PodGroup, PodGroupName};
pub use quantity::{Quantity, QuantityError};
pub use request::{ContainerDemand, Demand, GpuRequest, GpuShape, RequestError, ShareMemory};
pub(crate) use resources::bounded;
pub use resources::{ResourceList, Resources};
pub use selector::{
    CompiledRequirement, CompiledSelector, CompiledTerm, NodeSelector, NodeSelectorTerm, Operator, PreferredTerm,
    Requirement,
};
pub use storage::{
    AccessMode, BindingMode, ClaimName, ClaimRef, CsiDriver, CsiNode, CsiVolume, DiskSource, InlineDisk, PodVolume,
    StorageCapacity, StorageClass, StorageKey, StorageObject, Volume, VolumeAttachment, VolumeClaim, VolumePlan,
    VolumeSource, counts_as_csi, csi_driver_of,
};
pub use symbols::{Symbol, Symbols};
pub use taint::{CompiledTaint, CompiledToleration, Effect, Taint, Toleration, TolerationOperator};
pub use time::{Millis, Timestamp};
pub use topology_manager::{
    TopologyManager, TopologyManagerPolicy, TopologyManagerScope, TopologySetting, UnknownName,
};
pub(crate) use units::mul_div;
pub use units::{Cost, Mib, MilliGpu, Percent, share_size};
pub use workload::{DisruptionBudget, Workload, WorkloadKind, WorkloadName};
