//! One scheduling cycle of one pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::contract::ConditionReason;
use crate::engine::{Engine, profile_for};
use crate::framework::{
    ClassCache, Cycle, Diagnosis, PreFiltered, Profile, Reason, Rejection, Selection, best, find_cards, sift,
};
use crate::ledger::CardChoice;
use crate::model::{NodeId, PodId, PodUid, Timestamp, VolumePlan};
use crate::preemption::fits_beside_nominated;
use crate::queue::Place;
use crate::state::{Class, Resolution, State};

/// What a cycle came to.
enum Found {
    /// This node, and which card.
    Node(NodeId, CardChoice),
    /// None: what plugins that look at the whole cluster said.
    None { rejected: BTreeMap<NodeId, Rejection>, all: Option<Reason>, silent: bool },
}

/// Where a pod would go.
pub(super) enum Placing {
    /// The step budget is spent.
    Busy,
    /// It is not known, or nobody here schedules it.
    NotOurs,
    /// To this node, with these cards, and with this done to its volumes.
    Found(Arc<Class>, NodeId, CardChoice, VolumePlan),
    /// Nowhere: what to say of it, and nodes where something could be freed.
    Nowhere(Arc<Class>, Arc<str>, Vec<NodeId>),
}

impl Engine {
    /// Tries the head of the queue; returns whether it came to an end within the step budget.
    pub(super) fn schedule(&mut self, now: Timestamp, pod: PodId) -> bool {
        let (class, node, choice, plan) = match self.find_place(pod) {
            Placing::Busy => return false,
            Placing::NotOurs => {
                self.queue.remove(pod);
                return true;
            }
            Placing::Nowhere(class, message, nodes) => return self.rescue(now, pod, &class, &message, &nodes),
            Placing::Found(class, node, choice, plan) => (class, node, choice, plan),
        };
        self.finish_attempt(pod);
        self.take_place(pod, &class, node, choice, plan);
        self.nominate_in_books(pod, None);
        self.state.end_decision();
        match self.reserve(pod) {
            Some(why) => self.fail(now, pod, ConditionReason::Unschedulable, why),
            None => self.start_binding(now, pod),
        }
        // One pod of a class fitted; the next one that waits may fit as well.
        self.queue.wake(class.id);
        true
    }

    /// Places a pod where [`Engine::find_place`] said, as long as nothing has changed since.
    pub(super) fn take_place(&mut self, pod: PodId, class: &Class, node: NodeId, choice: CardChoice, plan: VolumePlan) {
        let state = self.state.node(node).expect("a candidate is a live node: the cache is up to date");
        let placement = find_cards(&self.state, class, state, choice)
            .expect("a candidate has the cards that its evaluation found: the cache is up to date");
        self.state.assume(pod, node, &placement);
        if !plan.is_empty() {
            self.state.assume_volumes(pod, plan);
        }
    }

    /// Where a pod would go. Nothing changes by it but what is kept of evaluations.
    pub(super) fn find_place(&mut self, pod: PodId) -> Placing {
        if self.steps == 0 {
            return Placing::Busy;
        }
        let Some(entry) = self.state.pod(pod) else { return Placing::NotOurs };
        let class = self.state.class(entry.class).clone();
        let Some(profile) = profile_for(&self.profiles, &class) else { return Placing::NotOurs };
        if !self.reuse_evaluations && self.evaluated_for != Some(pod) {
            self.caches.clear();
            self.evaluated_for = Some(pod);
        }
        let cache = self.caches.of(profile, &self.state, &class);
        if !cache.refresh(profile, &self.state, &class, &mut self.steps) {
            return Placing::Busy;
        }
        if self.search.as_ref().is_none_or(|(uid, _)| *uid != entry.uid) {
            self.decisions += 1;
        }
        self.steps = self.steps.saturating_sub(1);
        let nominated: Vec<NodeId> = self.state.nominations().filter(|n| cache.candidate(*n).is_some()).collect();
        let barred = barred(&mut self.state, profile, &class, pod, nominated);
        let cycle = profile.begin_cycle(&self.state, &class);
        let found = find(profile, &self.state, cache, &cycle, &class, pod, barred, self.decisions);
        let plan = match &found {
            Found::Node(node, _) => self.state.node(*node).and_then(|node| cycle.plan(node)),
            Found::None { .. } => None,
        };
        drop(cycle);
        match found {
            Found::Node(node, choice) => Placing::Found(class, node, choice, plan.unwrap_or_default()),
            Found::None { rejected, all, silent } => {
                let message = message(&self.state, cache, &class, &rejected, all.as_ref(), silent);
                let nodes = if all.is_some() { Vec::new() } else { resolvable(&self.state, cache, &rejected) };
                Placing::Nowhere(class, message, nodes)
            }
        }
    }

    /// An attempt came to an end, whichever.
    pub(super) fn finish_attempt(&mut self, pod: PodId) {
        self.evaluated_for = None;
        self.search = None;
        if let Some(waiting) = self.queue.get_mut(pod) {
            waiting.attempts = waiting.attempts.saturating_add(1);
        }
    }

    /// What a pod that fits nowhere is told, and the search for room for it, belong to its identity.
    pub(super) fn uid_of(&self, pod: PodId) -> Option<PodUid> {
        self.state.pod(pod).map(|p| p.uid.clone())
    }

    /// Pods whose question is another one now, because selectors tell them apart that were never seen before: those that
    /// are parked under their old class are tried as what they are.
    pub(super) fn requeue_reclassified(&mut self) {
        for pod in self.state.reclassify() {
            if let Some(Place::Unschedulable(_)) = self.queue.get(pod).map(|w| w.place) {
                self.queue.pass_turn(pod);
                self.queue.move_to(pod, Place::Active);
            }
        }
    }
}

/// Those of `nominated` that only seem to have room: pods of no lower priority are to have it. `O(nominated)`.
pub(super) fn barred(
    state: &mut State,
    profile: &Profile,
    class: &Class,
    pod: PodId,
    nominated: Vec<NodeId>,
) -> BTreeMap<NodeId, Rejection> {
    let mut barred = BTreeMap::new();
    for node in nominated {
        let rejection = state
            .transaction(|what_if| Resolution::Rollback(fits_beside_nominated(what_if, profile, class, pod, node)));
        if let Some(rejection) = rejection {
            barred.insert(node, rejection);
        }
    }
    barred
}

/// The node for a pod: the one that is kept for it if it fits there, else the cheapest.
#[allow(clippy::too_many_arguments, reason = "one step of a cycle, with all that it knows")]
fn find(
    profile: &Profile,
    state: &State,
    cache: &ClassCache,
    cycle: &Cycle<'_>,
    class: &Class,
    pod: PodId,
    barred: BTreeMap<NodeId, Rejection>,
    decision: u64,
) -> Found {
    let kept = state.nominated_node(pod);
    if cycle.is_silent() && barred.is_empty() {
        let kept = kept.and_then(|node| Some((node, cache.candidate(node)?)));
        return match kept.or_else(|| cache.best(profile, state, class, decision)) {
            Some((node, candidate)) => Found::Node(node, candidate.choice),
            None => Found::None { rejected: barred, all: None, silent: true },
        };
    }
    if let Some((_, reason)) = cycle.pre_filter() {
        return Found::None { rejected: BTreeMap::new(), all: Some(reason), silent: false };
    }
    let sifted = sift(profile, state, cycle, barred, cache.candidates());
    let feasible = || sifted.feasible.iter().map(|(id, candidate)| (*id, *candidate));
    let kept = kept.and_then(|node| feasible().find(|(id, _)| *id == node));
    match kept.or_else(|| best(profile, state, class, decision, feasible(), &sifted.extra)) {
        Some((node, candidate)) => Found::Node(node, candidate.choice),
        None => Found::None { rejected: sifted.rejected, all: None, silent: false },
    }
}

/// Why it fits nowhere. What depends on the class alone is worked out once.
fn message(
    state: &State,
    cache: &mut ClassCache,
    class: &Class,
    rejected: &BTreeMap<NodeId, Rejection>,
    all: Option<&Reason>,
    silent: bool,
) -> Arc<str> {
    if let Some(message) = cache.message.as_ref().filter(|_| silent) {
        return message.clone();
    }
    let diagnosis = Diagnosis::of(state, cache.evaluations(), rejected);
    let message: Arc<str> = match all {
        // A refusal that was there before any plugin looked at the cluster is the first one.
        Some(reason) if !matches!(cache.pre.selection, Selection::Reject(_)) => {
            let pre = PreFiltered { selection: Selection::Reject(reason.clone()), plugins: cache.pre.plugins.clone() };
            diagnosis.message(state, class, &pre).into()
        }
        _ => diagnosis.message(state, class, &cache.pre).into(),
    };
    if silent {
        cache.message = Some(message.clone());
    }
    message
}

/// Nodes where something could be freed, by slot. `O(nodes)`.
fn resolvable(state: &State, cache: &ClassCache, rejected: &BTreeMap<NodeId, Rejection>) -> Vec<NodeId> {
    let resolvable = |id: &NodeId| match rejected.get(id).or_else(|| cache.rejection(*id)) {
        Some(rejection) => !rejection.permanent,
        None => false,
    };
    state.live_nodes().map(crate::state::NodeState::id).filter(resolvable).collect()
}
