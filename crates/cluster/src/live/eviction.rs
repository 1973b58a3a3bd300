//! A pod that has to go, as its condition and the event about it tell it.

use std::sync::Arc;

use gpu_scheduler_engine::EvictReason;
use gpu_scheduler_engine::model::{PodName, PodUid};

use super::event::EventDraft;

/// A pod that has to go.
#[derive(Debug)]
pub(super) struct Eviction {
    pub uid: PodUid,
    pub pod: PodName,
    pub node: Arc<str>,
    pub reason: EvictReason,
    pub message: String,
    /// The pod that it makes room for.
    pub preemptor: Option<(PodUid, PodName)>,
}

impl Eviction {
    /// The reason of the condition `DisruptionTarget`: Kubernetes' own where it has one.
    pub fn condition_reason(&self) -> &'static str {
        match self.reason {
            EvictReason::Preempted => "PreemptionByScheduler",
            EvictReason::GpuOvercommitted => "GPUOvercommitted",
        }
    }

    /// What is told of it, as kube-scheduler words preemption.
    pub fn into_event(self) -> EventDraft {
        let profile = String::from("gpu-scheduler");
        let reason = self.reason.to_string();
        match self.preemptor {
            Some((uid, name)) => EventDraft {
                uid: self.uid,
                pod: self.pod,
                warning: false,
                reason,
                action: "Preempting",
                note: format!("Preempted by pod {uid} on node {}", self.node),
                related: Some((uid, name)),
                profile,
            },
            None => EventDraft {
                uid: self.uid,
                pod: self.pod,
                warning: true,
                reason,
                action: "Evicting",
                note: self.message,
                related: None,
                profile,
            },
        }
    }
}
