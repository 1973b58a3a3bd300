//! A pod that fits nowhere: others may have to make room; else it says why, and waits.

use std::sync::Arc;

use crate::contract::{Action, ConditionReason, EvictReason};
use crate::engine::{Engine, profile_for};
use crate::framework::Rescue;
use crate::model::{NodeId, PodId, PodUid, Timestamp};
use crate::preemption::Attempt;
use crate::queue::Place;
use crate::state::{Class, PodEntry, Resolution, Stage};

/// A node, and the pods that would have to leave it.
type Sacrifice = (NodeId, Vec<PodId>);

impl Engine {
    /// Asks the PostFilter plugins; returns whether they came to an end within the step budget. `nodes` are those where
    /// something could be freed.
    pub(super) fn rescue(
        &mut self,
        now: Timestamp,
        pod: PodId,
        class: &Arc<Class>,
        message: &Arc<str>,
        nodes: &[NodeId],
    ) -> bool {
        let Some((preempts, mut text)) = self.search_victims(pod, class, message, nodes, &[]) else { return false };
        self.park(now, pod, class);
        match preempts {
            Some((node, victims)) => text = format!("{text} {}", self.preempt(now, pod, node, &victims)).into(),
            None => self.forgo_nomination(pod, nodes),
        }
        self.say(pod, ConditionReason::Unschedulable, text);
        true
    }

    /// Looks for pods that could make room: where and who, if any, and what the pod says; `None` if the step budget is
    /// spent. `chosen` are pods that are to go for others of its gang.
    pub(super) fn search_victims(
        &mut self,
        pod: PodId,
        class: &Arc<Class>,
        message: &Arc<str>,
        nodes: &[NodeId],
        chosen: &[PodId],
    ) -> Option<(Option<Sacrifice>, Arc<str>)> {
        let (Some(profile), Some(uid)) = (profile_for(&self.profiles, class), self.uid_of(pod)) else {
            return Some((None, message.clone()));
        };
        if self.state.live_nodes().next().is_none() {
            return Some((None, message.clone()));
        }
        let mut search = self.search.take().filter(|(owner, _)| *owner == uid).map(|(_, search)| search);
        let mut text = message.to_string();
        for plugin in profile.post_filters() {
            let (offset, steps) = (self.decisions, &mut self.steps);
            let rescue = self.state.transaction(|what_if| {
                let attempt = Attempt { pod, resolvable: nodes, chosen, offset, steps, search: &mut search };
                Resolution::Rollback(plugin.post_filter(what_if, profile, attempt))
            });
            if !matches!(rescue, Rescue::Unfinished) {
                self.preemptions.attempts += 1;
            }
            match rescue {
                Rescue::Nothing => {}
                Rescue::Helpless(why) => text = format!("{text} {why}"),
                Rescue::Unfinished => {
                    self.search = search.map(|search| (uid, search));
                    return None;
                }
                Rescue::Preempt { node, victims } => return Some((Some((node, victims)), text.into())),
            }
        }
        Some((None, text.into()))
    }

    /// The attempt is over: the pod waits for a change.
    fn park(&mut self, now: Timestamp, pod: PodId, class: &Class) {
        self.finish_attempt(pod);
        self.state.end_decision();
        self.queue.park(pod, class.id, self.retry_after.map(|after| now + after));
    }

    /// Has the victims deleted and keeps the node for the pod; returns what to say of it.
    pub(super) fn preempt(&mut self, now: Timestamp, pod: PodId, node: NodeId, victims: &[PodId]) -> String {
        let state = self.state.node(node).filter(|n| n.facts().is_some());
        let (Some(entry), Some(state)) = (self.state.pod(pod), state) else { return String::new() };
        let (uid, name, priority, node_name) =
            (entry.uid.clone(), entry.name.clone(), entry.priority, state.name().clone());
        let scheduler = self.scheduler_of(pod).unwrap_or_default();
        let stays = |v: &&PodId| self.state.pod(**v).is_some_and(|p| !p.is_leaving());
        let new = victims.iter().filter(stays).count();
        for victim in victims {
            self.evict_for(now, *victim, &node_name, (&uid, &name), &scheduler);
        }
        let waits = victims.iter().any(|v| self.state.pod(*v).is_some_and(|p| p.placed.is_some()));
        // Whoever was to have this room and matters less looks for another one.
        let lower = |other: &PodId| *other != pod && self.state.pod(*other).is_some_and(|p| p.priority < priority);
        let displaced: Vec<PodId> = self.state.nominated_on(node).filter(lower).collect();
        for other in displaced {
            self.nominate(other, None);
            self.queue.wake_pod(other);
        }
        self.nominate(pod, Some(node));
        if !waits {
            // All of them were only placed in our own books: there is nobody to wait for.
            self.queue.wake_pod(pod);
        }
        if new > 0 {
            *self.preemptions.victims.entry(u32::try_from(new).unwrap_or(u32::MAX)).or_default() += 1;
        }
        format!(
            "preemption: found a potential placement for pod on node {node_name}, preempting {} victims",
            victims.len()
        )
    }

    fn evict_for(
        &mut self,
        now: Timestamp,
        victim: PodId,
        node: &Arc<str>,
        preemptor: (&crate::model::PodUid, &crate::model::PodName),
        scheduler: &str,
    ) {
        let Some(entry) = self.state.pod(victim) else { return };
        if entry.is_leaving() {
            return;
        }
        // One whose bind is not out yet is only taken back: nobody but us knows that it is placed.
        let assumed = entry.placed.as_ref().is_some_and(|p| p.stage == Stage::Assumed);
        if assumed && self.bindings.is_early(victim) {
            let why = format!("preempted by pod {} on node {node}", preemptor.1);
            self.fail(now, victim, ConditionReason::Unschedulable, why);
            return;
        }
        let (uid, pod) = (entry.uid.clone(), entry.name.clone());
        // One that goes with its group may be elsewhere.
        let its = entry.placed.as_ref().and_then(|p| self.state.node(p.node)).map(|n| n.name().clone());
        let node = its.unwrap_or_else(|| node.clone());
        self.state.mark_preempted(victim, true);
        self.outbox.push_back(Action::Evict {
            uid,
            pod,
            node,
            reason: EvictReason::Preempted,
            message: format!("{scheduler}: preempting to accommodate a higher priority pod"),
            preemptor: Some((preemptor.0.clone(), preemptor.1.clone())),
        });
    }

    /// A pod that was to be evicted stays, so that whom it was to make room for looks again, after a pause: for others, and
    /// for this one where nobody else would do.
    pub(super) fn keep_victim(&mut self, now: Timestamp, victim: &PodUid, preemptor: &PodUid) {
        let Some(victim) = self.state.pod_of(victim).filter(|p| p.preempted && !p.terminating).map(|p| p.id) else {
            return;
        };
        self.state.keep_preempted(victim);
        let Some(preemptor) = self.state.pod_of(preemptor).filter(|p| p.placed.is_none()).map(|p| p.id) else { return };
        let place = self.queue.get(preemptor).map(|w| w.place);
        let looks = matches!(place, Some(Place::Active | Place::Backoff(_) | Place::Unschedulable(_)));
        // Meanwhile it may have found room elsewhere, or have others make some.
        let elsewhere = self.state.nominated_node(preemptor).is_some_and(|node| Some(node) != self.node_of(victim));
        if looks && !elsewhere {
            self.nominate(preemptor, None);
            self.queue.back_off(preemptor, now);
        }
    }

    /// A pod that finds no room by preemption gives up the node that was kept for it, unless others are on their way
    /// out for it.
    fn forgo_nomination(&mut self, pod: PodId, nodes: &[NodeId]) {
        let Some(node) = self.state.nominated_node(pod) else { return };
        let priority = self.state.pod(pod).map_or(i32::MIN, |p| p.priority);
        let leaving = |id: &PodId| self.state.pod(*id).is_some_and(|p| p.preempted && p.priority < priority);
        let waits = self.state.node(node).is_some_and(|n| n.pods().iter().any(leaving));
        if !(waits && nodes.binary_search(&node).is_ok()) {
            self.nominate(pod, None);
        }
    }

    /// Keeps a node for a pod, or none any more, and says so.
    pub(super) fn nominate(&mut self, pod: PodId, node: Option<NodeId>) {
        if self.state.nominated_node(pod) == node {
            return;
        }
        self.nominate_in_books(pod, node);
        let Some(entry) = self.state.pod(pod) else { return };
        let name = node.and_then(|node| self.state.node(node)).map(|n| n.name().clone());
        self.outbox.push_back(Action::Nominate { uid: entry.uid.clone(), pod: entry.name.clone(), node: name });
    }

    /// As [`Engine::nominate`], and tells nobody. What a nomination is in the way of may go on without it.
    pub(super) fn nominate_in_books(&mut self, pod: PodId, node: Option<NodeId>) {
        let before = self.state.nominated_node(pod);
        self.state.nominate(pod, node);
        if before != node {
            before.into_iter().chain(node).for_each(|node| self.bindings.turnstile.stir(node));
        }
    }

    /// Makes pods ready for which a node that changed is kept: that would fit there, or have nobody to wait for any more.
    pub(super) fn wake_nominated(&mut self, node: NodeId) {
        let pods: Vec<PodId> = self.state.nominated_on(node).collect();
        let here = self.state.node(node).map(|n| n.pods()).unwrap_or_default();
        let leaving = here.iter().filter_map(|p| self.state.pod(*p)).any(PodEntry::is_leaving);
        for pod in pods {
            let Some(class) = self.state.pod(pod).map(|p| p.class) else { continue };
            if !leaving || self.would_fit(class, node) {
                self.queue.wake_pod(pod);
            }
        }
    }
}
