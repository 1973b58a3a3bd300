//! Where kubelet chooses NUMA nodes, cards are chosen once more as a bind goes out, by what kubelet will know by then.
//!
//! It chooses by the pods that it has admitted. Since a pod was placed, others may have left; and of those that were placed
//! before it some may come after it, because their volumes have to be bound first. So the pod is placed on its node as if
//! nobody was there who comes later, and those are placed after it: nobody knows yet what they were to hold. Where they do
//! not all find cards again, the pod waits for them, or those that matter less give their place up.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::contract::ConditionReason;
use crate::engine::Engine;
use crate::framework::{Reason, Rejection, find_cards};
use crate::ledger::{CardChoice, Shortage};
use crate::model::{NodeId, PodId, PodName, Timestamp};
use crate::preemption::leaves_cards_to_nominated;
use crate::state::{Class, Placed, PodEntry, Resolution, Stage, Transaction};

/// Whether a bind may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forecast {
    /// kubelet gives the pod the cards that the books have for it, by now.
    Agrees,
    /// Not yet: others come first.
    Waits,
    /// The pod has given its place up.
    Refused,
}

/// A pod that finds no cards, and what is in the way.
type Missed = (PodId, Rejection);

impl Engine {
    /// Chooses a pod's cards anew; it is as it was before if that changes nothing. `O(1)` where kubelet has no choice, else
    /// one search for each pod on the node whose bind is not out.
    pub(super) fn foretell(&mut self, now: Timestamp, pod: PodId) -> Forecast {
        let Some(node) = self.node_where_kubelet_chooses(pod) else { return Forecast::Agrees };
        let mut later = self.later(node, pod);
        loop {
            let missed = match self.arrange(node, pod, &later) {
                Ok(()) => return Forecast::Agrees,
                Err(missed) => missed,
            };
            if missed.iter().any(|(other, _)| *other == pod) {
                // Two that wait for each other would do so until they gave up.
                if !later.iter().all(|other| self.bindings.is_queued(*other)) {
                    return Forecast::Waits;
                }
                self.give_up(now, node, missed);
                return Forecast::Refused;
            }
            if !missed.iter().all(|(other, _)| self.yields(*other, pod)) {
                return Forecast::Waits;
            }
            later.retain(|other| !missed.iter().any(|(it, _)| it == other));
            self.give_up(now, node, missed);
        }
    }

    /// Places a pod and then those that come later, if all of them find cards; else nothing changes.
    fn arrange(&mut self, node: NodeId, pod: PodId, later: &[PodId]) -> Result<(), Vec<Missed>> {
        self.state.transaction(|what_if| {
            let all = std::iter::once(pod).chain(later.iter().copied());
            let before: Vec<(PodId, Placed)> = all.filter_map(|it| Some((it, what_if.remove(it)?))).collect();
            let (mut moved, mut missed) = (false, Vec::new());
            for (other, before) in &before {
                let Some(class) = what_if.pod(*other).map(|p| what_if.class(p.class).clone()) else { continue };
                match place_again(what_if, &class, *other, node, before, moved) {
                    Ok(stays) => moved |= !stays,
                    Err(rejection) => missed.push((*other, rejection)),
                }
                if *other == pod && (!moved || !missed.is_empty()) {
                    break;
                }
            }
            match (missed.is_empty(), moved) {
                (true, true) => Resolution::Commit(Ok(())),
                (true, false) => Resolution::Rollback(Ok(())),
                (false, _) => Resolution::Rollback(Err(missed)),
            }
        })
    }

    fn give_up(&mut self, now: Timestamp, node: NodeId, missed: Vec<Missed>) {
        let name = self.state.node(node).map(|n| n.name().clone()).unwrap_or_default();
        for (pod, rejection) in missed {
            let reasons: Vec<_> = rejection.reasons.iter().map(|r| r.text(self.state.symbols())).collect();
            let reasons = reasons.join(", ");
            let why = format!("node {name} has no room any more by what its kubelet will choose: {reasons}");
            self.fail(now, pod, ConditionReason::Unschedulable, why);
        }
    }

    fn node_where_kubelet_chooses(&self, pod: PodId) -> Option<NodeId> {
        let node = self.node_of(pod)?;
        (self.is_aligned(node) && self.has_numa_nodes(pod)).then_some(node)
    }

    /// Pods on a node that kubelet will hear of after this one, those that matter most first.
    fn later(&self, node: NodeId, pod: PodId) -> Vec<PodId> {
        let later = |other: &&PodEntry| {
            let out = other.placed.as_ref().is_none_or(|p| p.stage != Stage::Assumed) || self.bindings.is_out(other.id);
            other.id != pod && !out && self.has_numa_nodes(other.id)
        };
        let here = self.state.node(node).map(|n| n.pods()).unwrap_or_default();
        let mut later: Vec<&PodEntry> = here.iter().filter_map(|p| self.state.pod(*p)).filter(later).collect();
        later.sort_by_key(|other| precedence(other));
        later.into_iter().map(|other| other.id).collect()
    }

    /// Whether a pod gives its place up for one that matters more. Of a gang none does: the others start without it.
    fn yields(&self, pod: PodId, to: PodId) -> bool {
        let (Some(pod), Some(to)) = (self.state.pod(pod), self.state.pod(to)) else { return true };
        let gang =
            pod.group.as_ref().and_then(|name| self.state.pod_group(name)).is_some_and(|g| g.min_count.is_some());
        !gang && precedence(to) < precedence(pod)
    }
}

/// Of any two pods one comes first: else each might wait for the other.
fn precedence(pod: &PodEntry) -> (Reverse<i32>, Timestamp, &PodName) {
    (Reverse(pod.priority), pod.created_at, &pod.name)
}

/// Places a pod that is nowhere; returns whether that is as `before`. Room that is being made for others stays theirs, as in
/// every placement, once any pod has `moved`.
fn place_again(
    what_if: &mut Transaction<'_>,
    class: &Class,
    pod: PodId,
    node: NodeId,
    before: &Placed,
    moved: bool,
) -> Result<bool, Rejection> {
    let rejected = |shortage| Rejection {
        plugin: "GPUFit",
        permanent: false,
        reasons: SmallVec::from_iter([Reason::Gpu(shortage)]),
    };
    let state = what_if.node(node).ok_or_else(|| rejected(Shortage::NoGpu))?;
    let placement = find_cards(what_if, class, state, CardChoice::SmallestRemainder).map_err(rejected)?;
    what_if.place(pod, node, &placement);
    let stays = what_if.pod(pod).and_then(|p| p.placed.as_ref()) == Some(before);
    if stays && !moved {
        return Ok(true);
    }
    what_if.remove(pod);
    leaves_cards_to_nominated(what_if, class, pod, node)?;
    what_if.place(pod, node, &placement);
    Ok(stays)
}
