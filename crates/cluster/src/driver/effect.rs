//! What is to be carried out.

use std::sync::Arc;

use gpu_scheduler_engine::model::{Allocation, PodName, PodUid, Ticket, Timestamp};
use gpu_scheduler_engine::{Condition, EvictReason, Notice};

use crate::allocation;
use crate::problem::Problem;

/// Something to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Bind a pod; answer with [`super::Input::BindAnswered`].
    Bind(BindOrder),
    /// Look where a pod is; answer with [`super::Input::ReadBack`].
    ReadBack(BindOrder),
    /// Tell that a pod was bound.
    Announce(Bound),
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
}

impl BindOrder {
    pub(super) fn new(ticket: Ticket, uid: PodUid, pod: PodName, node: Arc<str>, allocation: &Allocation) -> Self {
        let record = (!allocation.containers.is_empty()).then(|| allocation::serialise(allocation));
        Self { ticket, uid, pod, node, record }
    }
}

/// A pod that was bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The pod.
    pub uid: PodUid,
    /// Its name.
    pub pod: PodName,
    /// The node.
    pub node: Arc<str>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was created, if it is still known.
    pub created_at: Option<Timestamp>,
    /// The scheduler name that it calls us by.
    pub profile: String,
}
