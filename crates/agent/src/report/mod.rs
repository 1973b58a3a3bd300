//! What people should know of how devices were handed out: said on the pod, in the log, and counted.

mod teller;

pub(crate) use teller::{CONTROLLER, cut};
pub use teller::{Reports, Teller};

use std::fmt::Write as _;

use gpu_scheduler_engine::model::PodUid;

use crate::allocate::Refusal;
use crate::checkpoint::Holder;
use crate::inventory::DeviceUuid;
use crate::resources::ResourceName;

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A container got other devices than its record names.
    Mismatch {
        /// The container.
        to: Holder,
        /// The resource.
        resource: ResourceName,
        /// What the record names.
        expected: Vec<DeviceUuid>,
        /// What it got.
        gave: Vec<DeviceUuid>,
    },
    /// Several containers could have been asking, and they get different amounts of these devices.
    Ambiguous {
        /// Who was taken to be asking.
        to: Holder,
        /// Who else could have been.
        others: Vec<Holder>,
        /// The resource.
        resource: ResourceName,
        /// The devices.
        gave: Vec<DeviceUuid>,
    },
    /// A pod that was bound past the scheduler got what was free.
    Unrecorded {
        /// The container.
        to: Holder,
        /// The resource.
        resource: ResourceName,
        /// What it got.
        gave: Vec<DeviceUuid>,
    },
    /// Devices were given, and no pod is known that asks for them.
    Unexplained {
        /// The resource.
        resource: ResourceName,
        /// The devices.
        gave: Vec<DeviceUuid>,
    },
    /// A device that the record names does not work.
    Unhealthy {
        /// The container.
        to: Holder,
        /// The device.
        device: DeviceUuid,
        /// Why.
        reason: String,
    },
    /// Something was not given.
    Refused {
        /// Who asked, as far as known.
        to: Option<Holder>,
        /// The resource.
        resource: ResourceName,
        /// Why.
        why: Refusal,
    },
    /// A pod's record cannot be read.
    UnreadableRecord {
        /// The pod's UID.
        uid: PodUid,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: String,
    },
}

impl Report {
    /// All reasons, as events and the counter have them.
    pub const REASONS: [&str; 7] = [
        "GPUAllocationMismatch",
        "GPUAllocationAmbiguous",
        "GPUAllocationUnrecorded",
        "GPUAllocationUnexplained",
        "GPUUnhealthy",
        "GPUAllocationRefused",
        "GPUAllocationUnreadable",
    ];

    /// In one word.
    pub fn reason(&self) -> &'static str {
        let [mismatch, ambiguous, unrecorded, unexplained, unhealthy, refused, unreadable] = Self::REASONS;
        match self {
            Self::Mismatch { .. } => mismatch,
            Self::Ambiguous { .. } => ambiguous,
            Self::Unrecorded { .. } => unrecorded,
            Self::Unexplained { .. } => unexplained,
            Self::Unhealthy { .. } => unhealthy,
            Self::Refused { .. } => refused,
            Self::UnreadableRecord { .. } => unreadable,
        }
    }

    /// The pod that it is about: UID, namespace, name.
    pub fn pod(&self) -> Option<(&PodUid, &str, &str)> {
        match self {
            Self::Mismatch { to, .. }
            | Self::Ambiguous { to, .. }
            | Self::Unrecorded { to, .. }
            | Self::Unhealthy { to, .. } => of(to),
            Self::Refused { to, .. } => to.as_ref().and_then(of),
            Self::Unexplained { .. } => None,
            Self::UnreadableRecord { uid, namespace, name, .. } => Some((uid, namespace, name)),
        }
    }

    /// In words: what, where, what it means.
    pub fn message(&self) -> String {
        match self {
            Self::Mismatch { to, resource, expected, gave } => format!(
                "{to} was placed on {} and got {} of {resource}: kubelet chose so, and no card is overcommitted. The \
                 scheduler counts what it really has",
                list(expected),
                list(gave)
            ),
            Self::Ambiguous { to, others, resource, gave } => {
                let mut text = format!("kubelet asked for {} of {resource} and did not say for whom: {to}", list(gave));
                for other in others {
                    let _ = write!(text, ", or {other}");
                }
                text + ". It was taken to be the one that was bound first; their amounts differ"
            }
            Self::Unrecorded { to, resource, gave } => format!(
                "{to} was bound past the scheduler, so no record names its devices: it got what was free of {resource}, {}",
                list(gave)
            ),
            Self::Unexplained { resource, gave } => format!(
                "kubelet asked for {} of {resource}, and no pod is known that wants this; given, since no card is \
                 overcommitted. See whether the agent reaches the API server",
                list(gave)
            ),
            Self::Unhealthy { to, device, reason } => {
                format!(
                    "{to} got {device}, where it was placed, and that is unhealthy: {reason}. Delete the pod to move it"
                )
            }
            Self::Refused { to: Some(to), resource, why } => format!("{to} did not get {resource}: {why}"),
            Self::Refused { to: None, resource, why } => format!("{resource} was refused: {why}"),
            Self::UnreadableRecord { error, .. } => format!(
                "the annotation {} cannot be used: {error}. The pod gets whatever devices are free; delete it to have it \
                 placed anew",
                gpu_scheduler_cluster::allocation::ANNOTATION
            ),
        }
    }
}

fn of(holder: &Holder) -> Option<(&PodUid, &str, &str)> {
    Some((holder.uid.as_ref()?, &holder.namespace, &holder.name))
}

fn list(devices: &[DeviceUuid]) -> String {
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
