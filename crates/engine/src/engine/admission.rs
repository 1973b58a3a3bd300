//! One after another where a node's agent could not tell pods apart.
//!
//! kubelet asks for devices without saying for which pod. An agent that hands out what records say can pair a call with a
//! pod only while no other pod that asks for the same number of the same resource is on its way into the node. So the bind
//! of such a pod waits until kubelet has admitted the one before it (`status.startTime`).
//!
//! Where kubelet chooses NUMA nodes, which ones it chooses for a pod depends on what pods before it got. There all pods that
//! ask for whole cards, replicas or slices come to it one after another, each with cards that were chosen for its turn
//! ([`forecast`](crate::engine::forecast)).

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::contract::ConditionReason;
use crate::engine::Engine;
use crate::engine::forecast::Forecast;
use crate::model::{Demand, GpuRequest, Millis, NodeId, PodId, Timestamp};
use crate::state::Stage;

/// How long a bind waits for the kubelet of its node before the pod looks again.
const PATIENCE: Millis = Millis(60_000);

/// Binds that wait for kubelets, first come first served.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Turnstile {
    waiting: VecDeque<Turn>,
    /// Nodes where something happened that may let one of them through.
    stirred: BTreeSet<NodeId>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Turn {
    pod: PodId,
    until: Timestamp,
}

impl Turnstile {
    /// A pod waits no more.
    pub fn leave(&mut self, pod: PodId) {
        self.waiting.retain(|turn| turn.pod != pod);
    }

    /// A node, a pod on it or its bind changed: whoever waits there may have waited for that.
    pub fn stir(&mut self, node: NodeId) {
        if !self.waiting.is_empty() {
            self.stirred.insert(node);
        }
    }

    /// Whether someone may be let through by now.
    pub fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// When the first wait ends.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.waiting.front().map(|turn| turn.until)
    }
}

impl Engine {
    /// Binds a pod, or has its bind wait for its turn.
    pub(super) fn bind_in_turn(&mut self, now: Timestamp, pod: PodId) {
        match self.turn_comes(now, pod) {
            Forecast::Agrees => self.bind_now(pod),
            Forecast::Waits => {
                self.bindings.turnstile.waiting.push_back(Turn { pod, until: now + PATIENCE });
                self.bindings.queue(pod);
            }
            Forecast::Refused => {}
        }
    }

    /// Whether it is a pod's turn.
    fn turn_comes(&mut self, now: Timestamp, pod: PodId) -> Forecast {
        if self.admitted_before(pod).is_some() { Forecast::Waits } else { self.foretell(now, pod) }
    }

    /// Binds pods that need not wait any more, and gives up on those that waited too long. Where something stirred, `O(pods
    /// on the node)` for each that waits there, and where kubelet chooses a search for each that is not bound; `O(waiting)` to
    /// find them.
    pub(super) fn turn(&mut self, now: Timestamp) {
        while let Some(turn) = self.bindings.turnstile.waiting.front().copied().filter(|turn| turn.until <= now) {
            let why = match self.admitted_before(turn.pod).and_then(|p| self.state.pod(p)) {
                Some(other) => format!("kubelet has not admitted pod {} yet, which has to come before", other.name),
                None => "pods that are not bound yet are to have cards that kubelet would give to this one".to_owned(),
            };
            self.fail(now, turn.pod, ConditionReason::Unschedulable, why);
        }
        let stirred = std::mem::take(&mut self.bindings.turnstile.stirred);
        if stirred.is_empty() {
            return;
        }
        let waiting = self.bindings.turnstile.waiting.iter().map(|turn| turn.pod);
        let waiting: Vec<PodId> =
            waiting.filter(|pod| self.node_of(*pod).is_some_and(|node| stirred.contains(&node))).collect();
        for pod in waiting {
            // One before it may have had it give its place up.
            if self.bindings.is_queued(pod) && self.turn_comes(now, pod) == Forecast::Agrees {
                self.bindings.turnstile.leave(pod);
                self.bind_now(pod);
            }
        }
    }

    /// A pod on the same node that asks alike, whose bind is out or done, and which kubelet has not admitted.
    fn admitted_before(&self, pod: PodId) -> Option<PodId> {
        let entry = self.state.pod(pod)?;
        let node = entry.placed.as_ref()?.node;
        let ours = &self.state.class(entry.class).spec.gpu;
        let (steered, aligned) = (self.is_steered(node), self.is_aligned(node) && has_node(ours));
        if ours.is_none() || !(steered || aligned) {
            return None;
        }
        self.state.node(node)?.pods().iter().copied().find(|other| {
            let Some(entry) = self.state.pod(*other).filter(|p| p.id != pod && p.started_at.is_none()) else {
                return false;
            };
            let bound = entry.placed.as_ref().is_some_and(|p| p.stage == Stage::Bound);
            let theirs = &self.state.class(entry.class).spec.gpu;
            let one_by_one = steered && asks_alike(ours, theirs) || aligned && has_node(theirs);
            (bound || self.bindings.is_out(*other)) && one_by_one
        })
    }

    /// A pod is on its way no more. Whoever waits on its node may have waited for it.
    pub(super) fn forget_binding(&mut self, pod: PodId) {
        if let Some(node) = self.node_of(pod) {
            self.bindings.turnstile.stir(node);
        }
        self.bindings.forget(pod);
    }

    fn is_steered(&self, node: NodeId) -> bool {
        self.state.node(node).and_then(|n| n.report()).is_some_and(|report| report.steered)
    }

    pub(super) fn is_aligned(&self, node: NodeId) -> bool {
        self.state.node(node).is_some_and(|n| n.topology_manager().is_some())
    }

    /// Whether kubelet looks at NUMA nodes for any of a pod's devices, where it does.
    pub(super) fn has_numa_nodes(&self, pod: PodId) -> bool {
        self.state.pod(pod).is_some_and(|p| has_node(&self.state.class(p.class).spec.gpu))
    }
}

/// Whether kubelet looks at NUMA nodes for any of its devices.
fn has_node(request: &GpuRequest) -> bool {
    request.containers.iter().flat_map(|c| &c.demands).any(|d| !matches!(d, Demand::Share { .. }))
}

/// Whether kubelet may ask for a container of each in the same words.
fn asks_alike(a: &GpuRequest, b: &GpuRequest) -> bool {
    asks(a).any(|ask| asks(b).any(|other| ask == other))
}

/// The resource that kubelet counts, and how many of it, container by container.
fn asks(request: &GpuRequest) -> impl Iterator<Item = (Counted<'_>, u32)> {
    request.containers.iter().flat_map(|c| &c.demands).map(|demand| match demand {
        Demand::Cards { count } => (Counted::Cards, *count),
        Demand::Share { count, .. } | Demand::Seats { count } => (Counted::Seats, *count),
        Demand::Slices { profile, count } => (Counted::Slices(profile), *count),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted<'a> {
    Cards,
    Seats,
    Slices(&'a str),
}
