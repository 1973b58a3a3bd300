//! What happens outside.

use gpu_scheduler_engine::model::{PodUid, Ticket};

use crate::objects::{
    CsiDriver, CsiNode, CsiStorageCapacity, GpuNodeState, Namespace, Node, ObjectMeta, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodGroup, ReplicaSet, ReplicationController, Service, StatefulSet,
    StorageClass, VolumeAttachment,
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The watch of nodes.
    Nodes(Change<Node>),
    /// The watch of pods that are not finished.
    Pods(Change<Pod>),
    /// The watch of agents' reports.
    Reports(Change<GpuNodeState>),
    /// The watch of what is around them.
    Around(Around),
    /// The answer to a bind request.
    BindAnswered {
        /// Of this order.
        ticket: Ticket,
        /// The answer.
        answer: BindAnswer,
    },
    /// The answer to a write that binds a volume.
    VolumeAnswered {
        /// Of this order.
        ticket: Ticket,
        /// Which of its writes.
        index: usize,
        /// The answer.
        answer: VolumeAnswer,
    },
    /// The answer to the question whether such a write took effect.
    VolumeReadBack {
        /// Of this order.
        ticket: Ticket,
        /// Which of its writes.
        index: usize,
        /// The answer.
        answer: VolumeRead,
    },
    /// The API server refuses for good to delete a pod that is to make room for another.
    EvictionRefused {
        /// The pod that stays.
        uid: PodUid,
        /// Whom it was to make room for.
        preemptor: PodUid,
    },
    /// The answer to the question where a pod is.
    ReadBack {
        /// About the pod of this order.
        ticket: Ticket,
        /// The answer.
        answer: ReadAnswer,
    },
}

/// What the watches of kinds deliver that only say something about pods and nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum Around {
    /// Namespaces.
    Namespaces(Change<Namespace>),
    /// Services.
    Services(Change<Service>),
    /// ReplicationControllers.
    ReplicationControllers(Change<ReplicationController>),
    /// ReplicaSets.
    ReplicaSets(Change<ReplicaSet>),
    /// StatefulSets.
    StatefulSets(Change<StatefulSet>),
    /// PodDisruptionBudgets.
    DisruptionBudgets(Change<PodDisruptionBudget>),
    /// PodGroups.
    PodGroups(Change<PodGroup>),
    /// PersistentVolumeClaims.
    Claims(Change<PersistentVolumeClaim>),
    /// PersistentVolumes.
    Volumes(Change<PersistentVolume>),
    /// StorageClasses.
    StorageClasses(Change<StorageClass>),
    /// CSINodes.
    CsiNodes(Change<CsiNode>),
    /// CSIDrivers.
    CsiDrivers(Change<CsiDriver>),
    /// CSIStorageCapacities.
    Capacities(Change<CsiStorageCapacity>),
    /// VolumeAttachments.
    Attachments(Change<VolumeAttachment>),
}

impl Around {
    /// The kinds' names: nothing is decided before all of them have been listed once.
    pub const KINDS: [&'static str; 14] = [
        "Namespace",
        "Service",
        "ReplicationController",
        "ReplicaSet",
        "StatefulSet",
        "PodDisruptionBudget",
        "PodGroup",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "VolumeAttachment",
    ];
}

/// What a watch delivers: a list from time to time, between [`Change::Restarted`] and [`Change::Synced`], and changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<T> {
    /// All that exists follows, as [`Change::Listed`].
    Restarted,
    /// An object of a list.
    Listed(Seen<T>),
    /// The list is complete: what was not in it does not exist any more.
    Synced,
    /// An object appeared or changed.
    Applied(Seen<T>),
    /// An object is gone.
    Deleted(Seen<T>),
    /// The server does not know this kind: there are no objects of it.
    Absent,
}

/// An object as far as it could be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<T> {
    /// It could.
    Object(Box<T>),
    /// It could not: what it says of itself, and why.
    Broken {
        /// Its metadata, where at least that could be read.
        metadata: Box<ObjectMeta>,
        /// The error.
        error: String,
    },
}

/// Objects that name themselves.
pub trait Named {
    /// The metadata.
    fn metadata(&self) -> &ObjectMeta;
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl Named for $kind {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}
named!(
    Node,
    Pod,
    GpuNodeState,
    Namespace,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    PodDisruptionBudget,
    PodGroup,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment
);

impl<T: Named> Seen<T> {
    /// The metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.metadata(),
            Self::Broken { metadata, .. } => metadata,
        }
    }

    /// Namespace, empty for kinds that have none, and name.
    pub fn reference(&self) -> (String, String) {
        let metadata = self.metadata();
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone())
    }
}

/// How a bind request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAnswer {
    /// The API server took it.
    Done,
    /// The API server refused it, so it did not take effect. The text says why.
    Refused(String),
    /// The API server refused it because of how things stand (409): the pod may be bound already, by this very bind.
    Conflict(String),
    /// Not sent: this replica does not lead any more. Its term is about to end.
    Deposed,
    /// Nobody knows whether it took effect: no answer, or one that says nothing about it.
    Unknown(String),
}

/// How a write that binds a volume ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeAnswer {
    /// The API server took it.
    Done,
    /// The API server refused it, so it did not take effect. The text says why.
    Refused(String),
    /// The API server refused it because the object is another by now (409), perhaps by this very write.
    Conflict(String),
    /// Not sent: this replica does not lead any more. Its term is about to end.
    Deposed,
    /// Nobody knows whether it took effect.
    Unknown(String),
}

/// What an object says of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeRead {
    /// That it took effect.
    Written,
    /// Nothing: it did not take effect, and still may.
    NotWritten,
    /// That it cannot take effect any more. The text says why.
    Other(String),
    /// No answer.
    Unknown(String),
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAnswer {
    /// On this node.
    On(String),
    /// Nowhere.
    Unbound,
    /// There is no pod of this name and UID.
    Gone,
    /// No answer.
    Unknown(String),
}
