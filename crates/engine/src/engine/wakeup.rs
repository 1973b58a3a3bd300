//! Who is woken by what changed, and what ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::{Engine, profile_for};
use crate::model::{ClassId, NodeId, PodId, Timestamp};
use crate::preemption;
use crate::state::{NodeState, PodEntry, Resolution};

/// How far parked classes have been shown to changed nodes.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct WakeCursor {
    /// Every parked class has seen every change up to here.
    generation: u64,
    /// Classes before this one have seen the change of this generation too.
    partly: Option<(u64, ClassId)>,
    /// The answers of filters that parked classes have last been tried by.
    verdict_epoch: u64,
}

/// When measurements of a node's report stop counting.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Leases {
    ends: BTreeSet<(Timestamp, NodeId)>,
    of: BTreeMap<NodeId, (Timestamp, Arc<str>)>,
}

impl Leases {
    pub fn set(&mut self, node: NodeId, name: Arc<str>, until: Timestamp) {
        self.end(node);
        self.ends.insert((until, node));
        self.of.insert(node, (until, name));
    }
    pub fn end(&mut self, node: NodeId) -> Option<Arc<str>> {
        let (until, name) = self.of.remove(&node)?;
        self.ends.remove(&(until, node));
        Some(name)
    }
    pub fn next(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }
}

impl Engine {
    /// Shows parked classes the nodes that changed for the better since they were parked; the first pod of a
    /// class that would fit there, at once or in the place of others, is made ready. Returns whether all were shown within the step budget.
    /// One step a class and changed node.
    pub(super) fn wake_pods(&mut self) -> bool {
        let epoch = self.profiles.iter().fold(0, |sum, (_, p)| sum + p.verdict_epoch(&self.state));
        if self.wake.verdict_epoch != epoch {
            self.wake.verdict_epoch = epoch;
            let parked: Vec<ClassId> = self.queue.parked_classes(None).collect();
            parked.into_iter().for_each(|class| self.queue.wake(class));
        }
        self.wake_disturbed();
        if self.queue.parked_classes(None).next().is_none() {
            self.wake.generation = self.state.generation();
            self.wake.partly = None;
        }
        loop {
            let next = self.state.relaxed_since(self.wake.generation).next();
            let Some((generation, node)) = next else { return true };
            if self.wake.partly.is_none_or(|(g, _)| g != generation) {
                self.wake_nominated(node);
            }
            let mut from = self.wake.partly.take().filter(|(g, _)| *g == generation).map(|(_, class)| class);
            loop {
                let class = self.queue.parked_classes(from).next();
                let Some(class) = class else { break };
                if !self.spend() {
                    self.wake.partly = Some((generation, class));
                    return false;
                }
                if self.would_fit(class, node) {
                    self.queue.wake(class);
                } else if let Some(pod) = self.would_make_room(class, node) {
                    self.queue.wake_pod(pod);
                }
                from = Some(class.next());
            }
            self.wake.generation = generation;
        }
    }

    /// What changed since the last look was tried and undone: nobody who waits gains by it.
    pub(super) fn skip_own_changes(&mut self) {
        self.wake.generation = self.state.generation();
        self.wake.partly = None;
        self.state.take_disturbances();
    }

    /// Makes parked pods ready that something far away may have helped.
    fn wake_disturbed(&mut self) {
        let disturbances = self.state.take_disturbances();
        if disturbances.is_empty() {
            return;
        }
        let parked: Vec<ClassId> = self.queue.parked_classes(None).collect();
        for id in parked {
            let class = self.state.class(id);
            if disturbances.iter().any(|d| d.concerns(&self.state, class)) {
                self.queue.wake(id);
            }
        }
    }

    pub(super) fn would_fit(&mut self, class: ClassId, node: NodeId) -> bool {
        let class = self.state.class(class).clone();
        let Some(profile) = profile_for(&self.profiles, &class) else {
            return false;
        };
        let Some(node) = self.state.node(node) else { return false };
        // Reading must not make a cache, let alone drop another one for it.
        match self.caches.peek(class.id) {
            Some(cache) => profile.admits(&self.state, &class, &cache.pre, node),
            None => profile.admits(&self.state, &class, &profile.pre_filter(&self.state, &class), node),
        }
    }

    /// The first parked pod of a class that would fit on a node once others have left that matter less. Of those that may
    /// have others leave: one that has a node kept for it has looked already.
    fn would_make_room(&mut self, class: ClassId, node: NodeId) -> Option<PodId> {
        let lowest = self.state.node(node).and_then(NodeState::lowest_priority)?;
        let may = |pod: &&PodEntry| pod.preempts && self.state.nominated_node(pod.id).is_none();
        let pod = self.queue.parked(class).filter_map(|pod| self.state.pod(pod)).find(may)?;
        if lowest >= pod.priority {
            return None;
        }
        let pod = pod.id;
        let class = self.state.class(class).clone();
        let profile = profile_for(&self.profiles, &class).filter(|p| !p.post_filters().is_empty())?;
        let mut spent = 0;
        let helps = self.state.transaction(|what_if| {
            Resolution::Rollback(preemption::helps(what_if, profile, &class, pod, node, &mut spent))
        });
        self.steps = self.steps.saturating_sub(spent.saturating_mul(class.effort()));
        helps.then_some(pod)
    }

    /// Measurements that are too old do not count any more.
    pub(super) fn expire_leases(&mut self, now: Timestamp) {
        while let Some((until, node)) = self.leases.ends.first().copied()
            && until <= now
        {
            if let Some(name) = self.leases.end(node) {
                self.state.drop_report(&name, true);
            }
        }
    }
}
