//! Effects that drivers carry out.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Allocation, PodName, PodUid, Ticket, VolumePlan};

/// What [`Engine::poll`](crate::Engine::poll) says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Carry this out, and poll again.
    Act(Action),
    /// The step budget of this poll is spent with work left: bring in what waits outside, and poll again.
    Busy,
    /// Nothing to do before the next event or [`Engine::next_wakeup`](crate::Engine::next_wakeup).
    Rest,
}

/// An effect to carry out. Those with a ticket answer with
/// [`Event::ActionFinished`](crate::Event::ActionFinished); until then the engine assumes their effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Prepare a pod for its node (volumes, later claims); all of a pod's preparations come before its bind.
    PreBind {
        /// Names this action.
        ticket: Ticket,
        /// The pod.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The node.
        node: Arc<str>,
        /// What to prepare.
        step: PreBindStep,
    },
    /// Bind a pod: node and record in one write, under the pod's UID.
    Bind {
        /// Names this action.
        ticket: Ticket,
        /// The pod; a precondition of the write.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The node.
        node: Arc<str>,
        /// The record to write in the same transaction.
        allocation: Allocation,
    },
    /// Say on a pod why it waits. Comes only when the text changed.
    SetCondition {
        /// The pod.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The condition.
        condition: Condition,
    },
    /// Take a bound pod off its node: delete it, under its UID. What it holds counts until it is seen gone.
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
    /// Say on a waiting pod on which node room is made for it (`status.nominatedNodeName`), or that none is any more.
    Nominate {
        /// The pod.
        uid: PodUid,
        /// Its name.
        pod: PodName,
        /// The node.
        node: Option<Arc<str>>,
    },
    /// Tell people.
    Report(Notice),
}

/// Why a pod is taken off its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EvictReason {
    /// Another replica of the scheduler bound it late, onto a card that was given to others meanwhile.
    GpuOvercommitted,
    /// A pod of higher priority needs its place.
    Preempted,
}

impl fmt::Display for EvictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GpuOvercommitted => "GPUOvercommitted",
            Self::Preempted => "Preempted",
        })
    }
}

/// Something to do outside before a pod is bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreBindStep {
    /// Bind the pod's claims: write each binding onto its volume and the node onto each claim that a volume is to be
    /// made for, then wait until all of these claims are bound.
    BindVolumes(VolumePlan),
    /// What some other plugin asks.
    Other {
        /// The plugin.
        plugin: Cow<'static, str>,
        /// What it asks, in its own words.
        work: String,
    },
}

/// The pod condition `PodScheduled=False`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its reason.
    pub reason: ConditionReason,
    /// Its message.
    pub message: Arc<str>,
    /// Whether the pod says already, in other words, that it waits. Then the condition's time of transition stays.
    pub again: bool,
    /// Version of the pod's spec that it is about; 0 where it is not known.
    pub generation: i64,
}

/// The reason of a [`Condition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionReason {
    /// Nowhere to put it.
    Unschedulable,
    /// Something failed; it is tried again.
    SchedulerError,
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        })
    }
}

/// Something that people should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Facts put more onto a card than it has. It takes nothing until that heals.
    CardOvercommitted {
        /// The node.
        node: Arc<str>,
        /// The card's UUID.
        uuid: Arc<str>,
        /// What is wrong.
        why: String,
    },
    /// The card is in order again.
    CardHealed {
        /// The node.
        node: Arc<str>,
        /// The card's UUID.
        uuid: Arc<str>,
    },
    /// A pod was bound without a record; its devices are a guess.
    DevicesAssumed {
        /// The pod.
        pod: PodName,
        /// Its node.
        node: Arc<str>,
        /// UUIDs of the assumed cards.
        uuids: Vec<Arc<str>>,
    },
    /// A pod's record cannot be true; the pod is charged at its worst.
    RecordDoubted {
        /// The pod.
        pod: PodName,
        /// Its node.
        node: Arc<str>,
        /// What is wrong, and what is made of it.
        why: String,
    },
    /// While we were binding a pod, somebody else bound it elsewhere. Our claim is dropped.
    BoundElsewhere {
        /// The pod.
        pod: PodName,
        /// The node that we chose.
        ours: Arc<str>,
        /// The node that it is on.
        theirs: Arc<str>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CardOvercommitted { node, uuid, why } => {
                write!(f, "node {node}: GPU {uuid} is overcommitted ({why}); it takes nothing until that heals")
            }
            Self::CardHealed { node, uuid } => write!(f, "node {node}: GPU {uuid} is in order again"),
            Self::DevicesAssumed { pod, node, uuids } => write!(
                f,
                "pod {pod} on node {node} has no allocation record; assumed to hold {}",
                if uuids.is_empty() { "no GPU that is known".to_owned() } else { uuids.join(", ") }
            ),
            Self::RecordDoubted { pod, node, why } => {
                write!(f, "the allocation record of pod {pod} on node {node} cannot be true: {why}")
            }
            Self::BoundElsewhere { pod, ours, theirs } => {
                write!(f, "pod {pod} was bound to {theirs} by somebody else while we were binding it to {ours}")
            }
        }
    }
}
