//! The fields of Kubernetes objects that are read here, and no others. Unknown fields are ignored; a
//! `null` counts as absent, as the API server sees it.

mod gpu_node_state;
mod lenient;
mod meta;
mod node;
mod pod;

pub use gpu_node_state::{
    GpuNodeState, GpuNodeStateStatus, ReportedDevice, ReportedHolder, ReportedLink, ReportedPartition,
};
pub use lenient::{Quantities, RawQuantity};
pub use meta::{ObjectMeta, OwnerReference};
pub use node::{Node, NodeSpec, NodeStatus, Taint};
pub use pod::{
    Affinity, Container, ContainerPort, ContainerStatus, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, Pod, PodCondition, PodSpec, PodStatus, PreferredSchedulingTerm, ResourceRequirements,
    SchedulingGate, Toleration,
};
