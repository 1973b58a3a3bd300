//! What the labels of our metrics can say.
//!
//! Values are closed enums: a typo in a label is a series of its own that no dashboard shows, and an open set of
//! values is memory without bound at whoever stores them.

use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// An enum whose variants are label values.
macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                encoder.write_str(self.as_str())
            }
        }
    };
}

label_values! {
    /// How an attempt to schedule a pod ended.
    AttemptResult {
        /// A node was found.
        Scheduled => "scheduled",
        /// No node will do.
        Unschedulable => "unschedulable",
        /// Something failed on our side or the API server's.
        Error => "error",
    }
}

label_values! {
    /// A part of the queue.
    QueueName {
        /// To be tried.
        Active => "active",
        /// To be tried after a pause.
        Backoff => "backoff",
        /// To be tried once something changes for it.
        Unschedulable => "unschedulable",
        /// Kept out by a scheduling gate.
        Gated => "gated",
    }
}

label_values! {
    /// Why a pod came into a part of the queue, in kube-scheduler's words where it has them.
    QueueEvent {
        /// The pod appeared.
        PodAdd => "UnscheduledPodAdd",
        /// The pod changed.
        PodUpdate => "UnscheduledPodUpdate",
        /// It was tried in vain.
        ScheduleAttemptFailure => "ScheduleAttemptFailure",
        /// Its pause is over.
        BackoffComplete => "BackoffComplete",
        /// It was parked for so long that it is tried although nothing changed.
        UnschedulableTimeout => "UnschedulableTimeout",
        /// A node changed so that the pod would fit there.
        ClusterChange => "ClusterChange",
    }
}

label_values! {
    /// How a bind ended.
    BindResult {
        /// The pod is on its node.
        Bound => "bound",
        /// Somebody else bound the pod to another node.
        Elsewhere => "elsewhere",
        /// The pod is gone, being deleted, or another one of the same name.
        Gone => "gone",
        /// The API server said no.
        Refused => "refused",
        /// No answer, or an error that says nothing of the pod.
        Failed => "failed",
        /// Not sent: we are not the leader any more.
        Fenced => "fenced",
    }
}

label_values! {
    /// What is written to the API server.
    WriteKind {
        /// A binding with its allocation record.
        Binding => "binding",
        /// A claim on its volume, or a node on the claim that a volume is made for.
        Volume => "volume",
        /// The condition `PodScheduled` of a pod.
        PodCondition => "pod_condition",
        /// The deletion of a pod that has to go.
        Eviction => "eviction",
        /// An event for people.
        Event => "event",
    }
}

label_values! {
    /// How a write ended.
    WriteResult {
        /// It took effect.
        Ok => "ok",
        /// The object is not there (404).
        NotFound => "not_found",
        /// The object is not as we thought (409).
        Conflict => "conflict",
        /// Too many at once (429).
        Throttled => "throttled",
        /// Another refusal (4xx).
        Refused => "refused",
        /// An error of the API server (5xx), or no answer.
        Failed => "failed",
    }
}

label_values! {
    /// A kind of object that is watched, by its resource name.
    Watched {
        /// Nodes.
        Nodes => "nodes",
        /// Pods.
        Pods => "pods",
        /// Reports of cards.
        GpuNodeStates => "gpunodestates",
        /// Namespaces.
        Namespaces => "namespaces",
        /// Services.
        Services => "services",
        /// ReplicationControllers.
        ReplicationControllers => "replicationcontrollers",
        /// ReplicaSets.
        ReplicaSets => "replicasets",
        /// StatefulSets.
        StatefulSets => "statefulsets",
        /// PodDisruptionBudgets.
        DisruptionBudgets => "poddisruptionbudgets",
        /// PodGroups.
        PodGroups => "podgroups",
        /// PersistentVolumeClaims.
        VolumeClaims => "persistentvolumeclaims",
        /// PersistentVolumes.
        Volumes => "persistentvolumes",
        /// StorageClasses.
        StorageClasses => "storageclasses",
        /// CSINodes.
        CsiNodes => "csinodes",
        /// CSIDrivers.
        CsiDrivers => "csidrivers",
        /// CSIStorageCapacities.
        StorageCapacities => "csistoragecapacities",
        /// VolumeAttachments.
        VolumeAttachments => "volumeattachments",
    }
}

label_values! {
    /// What the scheduler keeps in memory, in kube-scheduler's words.
    CacheType {
        /// Nodes.
        Nodes => "nodes",
        /// Pods.
        Pods => "pods",
        /// Pods with a place that the API server has not confirmed.
        AssumedPods => "assumed_pods",
    }
}

impl WriteResult {
    /// By the HTTP status of a refusal.
    ///
    /// ```
    /// use gpu_scheduler_cluster::metrics::WriteResult;
    /// assert_eq!(WriteResult::of_status(409), WriteResult::Conflict);
    /// assert_eq!(WriteResult::of_status(504), WriteResult::Failed);
    /// ```
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Ok,
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::Throttled,
            400..=499 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// Labels of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptLabels {
    pub result: AttemptResult,
    pub profile: String,
}

/// Labels of a part of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueueLabels {
    pub queue: QueueName,
}

/// Labels of a move into a part of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct IncomingLabels {
    pub queue: QueueName,
    pub event: QueueEvent,
}

/// Labels of what is in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CacheLabels {
    pub r#type: CacheType,
}

/// Labels of a pod's way to its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SliLabels {
    pub attempts: Attempts,
}

/// Labels of a bind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BindLabels {
    pub result: BindResult,
}

/// Labels of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub kind: WriteKind,
    pub result: WriteResult,
}

/// Labels of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WatchLabels {
    pub resource: Watched,
}

/// Labels of a kind of object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabels {
    pub kind: Watched,
}

/// Labels of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaseLabels {
    pub name: String,
}

/// Labels of the build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub version: &'static str,
}

/// A number of attempts as kube-scheduler writes it: exact below 15, then `15+`, so that the series stay few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Attempts(u32);

impl Attempts {
    const MANY: u32 = 15;

    pub fn of(attempts: u32) -> Self {
        Self(attempts.min(Self::MANY))
    }
}

impl EncodeLabelValue for Attempts {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.0 {
            Self::MANY => write!(encoder, "{}+", Self::MANY),
            few => write!(encoder, "{few}"),
        }
    }
}

impl From<gpu_scheduler_engine::Part> for QueueName {
    fn from(part: gpu_scheduler_engine::Part) -> Self {
        use gpu_scheduler_engine::Part;
        match part {
            Part::Active => Self::Active,
            Part::Backoff => Self::Backoff,
            Part::Unschedulable => Self::Unschedulable,
            Part::Gated => Self::Gated,
        }
    }
}

impl From<gpu_scheduler_engine::Cause> for QueueEvent {
    fn from(cause: gpu_scheduler_engine::Cause) -> Self {
        use gpu_scheduler_engine::Cause;
        match cause {
            Cause::Arrival => Self::PodAdd,
            Cause::Update => Self::PodUpdate,
            Cause::AttemptFailed => Self::ScheduleAttemptFailure,
            Cause::BackoffOver => Self::BackoffComplete,
            Cause::ParkedForLong => Self::UnschedulableTimeout,
            Cause::ClusterChange => Self::ClusterChange,
        }
    }
}
