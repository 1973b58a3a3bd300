//! The fields of Kubernetes objects that are read here, and no others. Unknown fields are ignored; a
//! `null` counts as absent, as the API server sees it.

mod gpu_node_state;
mod lenient;
mod meta;
mod node;
mod pod;
mod pod_affinity;
mod pod_group;
mod selector;
mod storage;
mod workload;

pub use gpu_node_state::{
    GpuNodeState, GpuNodeStateStatus, ReportedDevice, ReportedHolder, ReportedLink, ReportedPartition,
    ReportedTopologyManager,
};
pub use lenient::{Quantities, RawQuantity, nullable};
pub use meta::{ObjectMeta, OwnerReference};
pub use node::{ContainerImage, Node, NodeSpec, NodeStatus, Taint};
pub use pod::{
    Affinity, ClaimVolume, Container, ContainerPort, ContainerStatus, EphemeralVolume, ImageVolume, NodeAffinity,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodCondition, PodResourceClaim, PodSchedulingGroup,
    PodSpec, PodStatus, PreferredSchedulingTerm, ResourceRequirements, RestartRule, SchedulingGate, Toleration, Volume,
    VolumeMount,
};
pub use pod_affinity::{PodAffinity, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm};
pub use pod_group::{DisruptionMode, GangPolicy, PodGroup, PodGroupSpec, SchedulingPolicy};
pub use selector::{LabelSelector, LabelSelectorRequirement};
pub use storage::{
    ClaimReference, CsiDriver, CsiDriverSpec, CsiNode, CsiNodeDriver, CsiNodeSpec, CsiSource, CsiStorageCapacity, Disk,
    DiskKind, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec, Phase,
    StorageClass, TopologySelectorLabel, TopologySelectorTerm, VolumeAttachment, VolumeAttachmentSource,
    VolumeAttachmentSpec, VolumeNodeAffinity, VolumeNodeResources,
};
pub use workload::{
    LabelsSpec, Namespace, PodDisruptionBudget, PodDisruptionBudgetStatus, ReplicaSet, ReplicationController,
    SelectorSpec, Service, StatefulSet,
};
