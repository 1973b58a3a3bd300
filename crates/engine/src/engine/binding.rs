//! Between decision and bind: waiting for permission, preparing, binding. Each step has a ticket.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::contract::{Action, Condition, ConditionReason, Outcome};
use crate::engine::Engine;
use crate::engine::admission::Turnstile;
use crate::framework::{Permission, Verdict};
use crate::model::{PodId, Ticket, Timestamp};
use crate::queue::Place;

/// Where a placed pod stands on its way to being bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Permit plugins hold it.
    Waiting,
    /// These preparations are out.
    Preparing(BTreeSet<Ticket>),
    /// Another pod has to come to the node's kubelet first.
    Queued,
    /// The bind is out.
    Binding(Ticket),
}

/// All pods on their way.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Bindings {
    /// Pods that Permit plugins hold, and until when; the same as those in [`Stage::Waiting`].
    waiting: BTreeMap<PodId, Timestamp>,
    stages: BTreeMap<PodId, Stage>,
    tickets: BTreeMap<Ticket, PodId>,
    last_ticket: u64,
    /// The same as those in [`Stage::Queued`].
    pub(super) turnstile: Turnstile,
}

impl Bindings {
    fn ticket(&mut self, pod: PodId) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.tickets.insert(ticket, pod);
        ticket
    }

    /// Forgets a pod; answers to its tickets mean nothing any more.
    pub fn forget(&mut self, pod: PodId) {
        self.waiting.remove(&pod);
        self.turnstile.leave(pod);
        match self.stages.remove(&pod) {
            Some(Stage::Preparing(tickets)) => {
                for ticket in tickets {
                    self.tickets.remove(&ticket);
                }
            }
            Some(Stage::Binding(ticket)) => {
                self.tickets.remove(&ticket);
            }
            Some(Stage::Waiting | Stage::Queued) | None => {}
        }
    }

    /// Whether the pod's bind is not out yet.
    pub fn is_early(&self, pod: PodId) -> bool {
        matches!(self.stages.get(&pod), Some(Stage::Waiting | Stage::Preparing(_) | Stage::Queued))
    }

    /// Whether the pod's bind is out, and not answered yet.
    pub fn is_out(&self, pod: PodId) -> bool {
        matches!(self.stages.get(&pod), Some(Stage::Binding(_)))
    }

    /// Another pod has to come to kubelet before this one.
    pub fn queue(&mut self, pod: PodId) {
        self.stages.insert(pod, Stage::Queued);
    }

    /// Whether another pod has to come to kubelet first.
    pub fn is_queued(&self, pod: PodId) -> bool {
        matches!(self.stages.get(&pod), Some(Stage::Queued))
    }

    /// When the first wait ends. `O(held pods)`.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.waiting.values().copied().chain(self.turnstile.next_deadline()).min()
    }

    fn held(&self) -> Vec<(PodId, Timestamp)> {
        self.waiting.iter().map(|(pod, until)| (*pod, *until)).collect()
    }
}

impl Engine {
    /// A pod was placed: asks the Permit plugins, and again those of pods that they hold, since one more
    /// placement may be what they wait for.
    pub(super) fn start_binding(&mut self, now: Timestamp, pod: PodId) {
        self.queue.move_to(pod, Place::InFlight);
        self.ask_permit(now, pod);
        for (held, _) in self.bindings.held() {
            if held != pod {
                self.ask_permit(now, held);
            }
        }
    }

    fn ask_permit(&mut self, now: Timestamp, pod: PodId) {
        let Some(node) = self.node_of(pod) else { return };
        let Some(profile) = self.profile_of(pod) else { return };
        let mut wait: Option<Timestamp> = None;
        let mut refused = None;
        for plugin in profile.permits() {
            match plugin.permit(now, &self.state, pod, node) {
                Permission::Allow => {}
                Permission::Wait(until) => wait = Some(wait.map_or(until, |w| w.min(until))),
                Permission::Reject(reason) => {
                    refused = Some(format!("{}: {}", plugin.name(), reason.text(self.state.symbols())));
                    break;
                }
            }
        }
        match (refused, wait) {
            (Some(why), _) => self.fail(now, pod, ConditionReason::Unschedulable, why),
            (None, Some(until)) => {
                // The first deadline stays, or asking again would put it off for ever.
                self.bindings.waiting.entry(pod).or_insert(until);
                self.bindings.stages.insert(pod, Stage::Waiting);
            }
            (None, None) => {
                self.bindings.waiting.remove(&pod);
                self.prepare(now, pod);
            }
        }
    }

    /// Gives up on pods that were held too long.
    pub(super) fn end_waits(&mut self, now: Timestamp) {
        for (pod, until) in self.bindings.held() {
            if until <= now {
                self.fail(
                    now,
                    pod,
                    ConditionReason::Unschedulable,
                    "timed out waiting for permission to bind".to_owned(),
                );
            }
        }
    }

    fn prepare(&mut self, now: Timestamp, pod: PodId) {
        let Some(entry) = self.state.pod(pod) else { return };
        let Some(placed) = &entry.placed else { return };
        let (uid, name, node_id) = (entry.uid.clone(), entry.name.clone(), placed.node);
        let Some(node) = self.state.node(node_id).map(|n| n.name().clone()) else { return };
        let Some(profile) = self.profile_of(pod) else { return };
        let steps: Vec<_> = profile.pre_binds().iter().filter_map(|p| p.pre_bind(&self.state, pod, node_id)).collect();
        if steps.is_empty() {
            self.bind_in_turn(now, pod);
            return;
        }
        let mut tickets = BTreeSet::new();
        for step in steps {
            let ticket = self.bindings.ticket(pod);
            tickets.insert(ticket);
            self.outbox.push_back(Action::PreBind {
                ticket,
                uid: uid.clone(),
                pod: name.clone(),
                node: node.clone(),
                step,
            });
        }
        self.bindings.stages.insert(pod, Stage::Preparing(tickets));
    }

    pub(super) fn bind_now(&mut self, pod: PodId) {
        let Some(entry) = self.state.pod(pod) else { return };
        let Some(placed) = &entry.placed else { return };
        let Some(node) = self.state.node(placed.node).map(|n| n.name().clone()) else { return };
        let (uid, name, allocation) = (entry.uid.clone(), entry.name.clone(), placed.allocation.clone());
        let ticket = self.bindings.ticket(pod);
        self.bindings.stages.insert(pod, Stage::Binding(ticket));
        self.outbox.push_back(Action::Bind { ticket, uid, pod: name, node, allocation });
    }

    /// The outcome of a ticket. Unknown tickets belong to pods that went away.
    pub(super) fn finish_action(&mut self, now: Timestamp, ticket: Ticket, outcome: Outcome) {
        let Some(pod) = self.bindings.tickets.remove(&ticket) else { return };
        if let Outcome::Failed(why) = outcome {
            self.fail(now, pod, ConditionReason::SchedulerError, why);
            return;
        }
        match self.bindings.stages.get_mut(&pod) {
            Some(Stage::Preparing(open)) => {
                open.remove(&ticket);
                if open.is_empty() {
                    self.bind_in_turn(now, pod);
                }
            }
            Some(Stage::Binding(_)) => self.bound(pod),
            Some(Stage::Waiting | Stage::Queued) | None => {}
        }
    }

    /// A bind of ours took effect.
    pub(super) fn bound(&mut self, pod: PodId) {
        self.forget_binding(pod);
        self.queue.remove(pod);
        self.state.confirm(pod);
        self.settle_own_bind(pod);
        let Some(node) = self.node_of(pod) else { return };
        if let Some(profile) = self.profile_of(pod) {
            for plugin in profile.post_binds() {
                plugin.post_bind(&self.state, pod, node);
            }
        }
    }

    /// A placement came to nothing: all of it is given back, the pod says why and backs off.
    pub(super) fn fail(&mut self, now: Timestamp, pod: PodId, reason: ConditionReason, why: String) {
        self.forget_binding(pod);
        self.undo_placement(pod);
        self.say(pod, reason, why.into());
        #[cfg(feature = "planted-bugs")]
        if self.forgets_failures {
            return;
        }
        self.queue.back_off(pod, now);
    }

    /// Takes a placement of ours back.
    pub(super) fn undo_placement(&mut self, pod: PodId) {
        let node = self.node_of(pod);
        if let (Some(node), Some(profile)) = (node, self.profile_of(pod)) {
            for plugin in profile.reserves().iter().rev() {
                plugin.unreserve(&self.state, pod, node);
            }
        }
        self.state.unplace(pod);
    }

    /// Asks the Reserve plugins; undone by the caller if one refuses.
    pub(super) fn reserve(&self, pod: PodId) -> Option<String> {
        let node = self.node_of(pod)?;
        let profile = self.profile_of(pod)?;
        profile.reserves().iter().find_map(|plugin| match plugin.reserve(&self.state, pod, node) {
            Verdict::Pass => None,
            Verdict::Reject { reasons, .. } => {
                let texts: Vec<_> = reasons.iter().map(|r| r.text(self.state.symbols())).collect();
                Some(format!("{}: {}", plugin.name(), texts.join(", ")))
            }
        })
    }

    /// Writes a condition, unless it says what the last one said.
    pub(super) fn say(&mut self, pod: PodId, reason: ConditionReason, message: std::sync::Arc<str>) {
        let Some(waiting) = self.queue.get_mut(pod) else { return };
        if waiting.message.as_ref() == Some(&message) {
            return;
        }
        let again = waiting.message.replace(message.clone()).is_some();
        let Some(entry) = self.state.pod(pod) else { return };
        let condition = Condition { reason, message, again, generation: entry.generation };
        self.outbox.push_back(Action::SetCondition { uid: entry.uid.clone(), pod: entry.name.clone(), condition });
    }
}
