//! Pods with a closed scheduling gate wait outside the queue.

use crate::framework::{PluginName, PreEnqueue, Reason};
use crate::state::{PodEntry, State};

/// `SchedulingGates`.
#[derive(Debug, Clone, Copy)]
pub struct SchedulingGates;

impl PreEnqueue for SchedulingGates {
    fn name(&self) -> PluginName {
        "SchedulingGates"
    }
    fn pre_enqueue(&self, _state: &State, pod: &PodEntry) -> Option<Reason> {
        pod.gates.first().map(|gate| Reason::Gated { gate: gate.clone() })
    }
}
