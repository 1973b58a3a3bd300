//! One scheduling cycle of one pod.

use std::sync::Arc;

use crate::contract::ConditionReason;
use crate::engine::{Engine, profile_for};
use crate::framework::{Diagnosis, Rescue, find_cards};
use crate::model::{PodId, Timestamp};
use crate::state::{Class, Resolution};

impl Engine {
    /// Tries the head of the queue; returns whether it came to an end within the step budget.
    pub(super) fn schedule(&mut self, now: Timestamp, pod: PodId) -> bool {
        if self.steps == 0 {
            return false;
        }
        let Some(entry) = self.state.pod(pod) else {
            self.queue.remove(pod);
            return true;
        };
        let class = self.state.class(entry.class).clone();
        let Some(profile) = profile_for(&self.profiles, &class) else {
            self.queue.remove(pod);
            return true;
        };
        if !self.reuse_evaluations && self.evaluated_for != Some(pod) {
            self.caches.clear();
            self.evaluated_for = Some(pod);
        }
        let cache = self.caches.of(profile, &self.state, &class);
        if !cache.refresh(profile, &self.state, &class, &mut self.steps) {
            return false;
        }
        self.decisions += 1;
        self.evaluated_for = None;
        self.steps = self.steps.saturating_sub(1);
        if let Some(waiting) = self.queue.get_mut(pod) {
            waiting.attempts = waiting.attempts.saturating_add(1);
        }
        let Some((node, candidate)) = cache.best(profile, &self.state, &class, self.decisions) else {
            self.give_up(now, pod, &class);
            self.state.end_decision();
            return true;
        };
        let choice = candidate.choice;
        let state = self.state.node(node).expect("a candidate is a live node: the cache is up to date");
        let placement = find_cards(&self.state, &class, state, choice)
            .expect("a candidate has the cards that its evaluation found: the cache is up to date");
        self.state.assume(pod, node, &placement);
        self.state.end_decision();
        match self.reserve(pod) {
            Some(why) => self.fail(now, pod, ConditionReason::Unschedulable, why),
            None => self.start_binding(now, pod),
        }
        // One pod of a class fitted; the next one that waits may fit as well.
        self.queue.wake(class.id);
        true
    }

    /// No node will do: PostFilter, then the pod says why and waits for a change.
    fn give_up(&mut self, now: Timestamp, pod: PodId, class: &Arc<Class>) {
        let Some(profile) = profile_for(&self.profiles, class) else {
            return;
        };
        let cache = self.caches.of(profile, &self.state, class);
        let message = match &cache.message {
            Some(message) => message.clone(),
            None => {
                let diagnosis = Diagnosis::of(&self.state, cache.evaluations());
                let message: Arc<str> = diagnosis.message(&self.state, class, &cache.pre).into();
                cache.message = Some(message.clone());
                message
            }
        };
        let mut message = message;
        for plugin in profile.post_filters() {
            let rescue =
                self.state.transaction(|what_if| Resolution::Rollback(plugin.post_filter(what_if, profile, pod)));
            if let Rescue::Helpless(why) = rescue {
                message = format!("{message} {why}").into();
            }
        }
        self.queue.park(pod, class.id, self.retry_after.map(|after| now + after));
        self.say(pod, ConditionReason::Unschedulable, message);
    }
}
