//! What is to be carried out.

use std::sync::Arc;

use gpu_scheduler_engine::model::{ClaimName, PodName, PodUid, Ticket, Timestamp};
use gpu_scheduler_engine::{Condition, EvictReason, Notice};

use crate::problem::Problem;

/// Something to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Bind a pod; answer with [`super::Input::BindAnswered`].
    Bind(BindOrder),
    /// Look where a pod is; answer with [`super::Input::ReadBack`].
    ReadBack(BindOrder),
    /// Write what binds a volume; answer with [`super::Input::VolumeAnswered`].
    WriteVolume(VolumeWrite),
    /// Look whether that is written; answer with [`super::Input::VolumeReadBack`].
    ReadVolume(VolumeWrite),
    /// Tell that a pod was bound.
    Announce(BindOrder),
    /// Write a pod's condition, and tell why it waits.
    Say {
        /// The pod.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The condition.
        condition: Condition,
        /// The scheduler name that it calls us by.
        profile: String,
    },
    /// Delete a pod, until it is gone, and tell why.
    Evict {
        /// The pod; a precondition of the write.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// Its node.
        node: Arc<str>,
        /// Why.
        reason: EvictReason,
        /// Why, with the particulars.
        message: String,
        /// The pod that it makes room for.
        preemptor: Option<(PodUid, PodName)>,
    },
    /// Write on a waiting pod where room is made for it.
    Nominate {
        /// The pod; a precondition of the write.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The node; `None` takes it back.
        node: Option<Arc<str>>,
    },
    /// Tell operators.
    Report(Notice),
    /// Tell operators that an object makes no sense.
    Problem(Problem),
}

/// A bind: node and record in one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindOrder {
    /// Names the order.
    pub ticket: Ticket,
    /// The pod; a precondition of the write.
    pub uid: PodUid,
    /// Its name.
    pub pod: PodName,
    /// The node.
    pub node: Arc<str>,
    /// The value of the annotation `gpu-scheduler/allocation`; `None` for pods that hold no GPU.
    pub record: Option<String>,
    /// How often the pod was tried, this time included.
    pub attempts: u32,
    /// When the pod was created.
    pub created_at: Timestamp,
    /// The scheduler name that the pod calls us by.
    pub profile: String,
}

/// One write on the way to a pod's volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeWrite {
    /// Names the order.
    pub ticket: Ticket,
    /// Which of its writes.
    pub index: usize,
    /// Version of the object that it was decided by; a precondition of the write.
    pub version: String,
    /// What is written.
    pub what: Written,
}

/// What is written to bind a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A claim, onto the volume that it is to be bound to.
    Claim {
        /// The volume.
        volume: Arc<str>,
        /// The claim.
        claim: ClaimName,
        /// The claim's UID.
        uid: Arc<str>,
        /// The claim's version.
        claim_version: String,
        /// Whether a user kept the volume for the claim.
        kept: bool,
    },
    /// A node, onto the claim that a volume is to be made for.
    Node {
        /// The claim.
        claim: ClaimName,
        /// The node.
        node: Arc<str>,
    },
}
