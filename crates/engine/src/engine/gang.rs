//! Pods of a gang are placed one after another while nobody else is tried, and started all together or not at all.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::contract::ConditionReason;
use crate::engine::cycle::Placing;
use crate::engine::{Engine, profile_for};
use crate::model::{NodeId, PodGroupName, PodId, PodUid, Timestamp};
use crate::queue::Place;
use crate::state::PodEntry;

/// An attempt to place a gang.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GangAttempt {
    group: PodGroupName,
    /// Pods that wait and were not tried yet.
    todo: VecDeque<(PodId, PodUid)>,
    /// Pods that have a place in our books.
    placed: Vec<(PodId, PodUid)>,
    /// Pods that would have one if others went: where, and who.
    wanting: Vec<Wanting>,
    /// Pods that have none, and what they say.
    missed: Vec<(PodId, Arc<str>)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Wanting {
    pod: PodId,
    node: NodeId,
    victims: Vec<PodId>,
    /// Those of them that were not on their way before.
    marked: Vec<PodId>,
    text: Arc<str>,
}

impl Engine {
    /// Whether the pod starts only together with others that have not started yet; then the attempt begins.
    pub(super) fn begin_gang(&mut self, pod: PodId) -> bool {
        let Some(name) = self.state.pod(pod).and_then(|p| p.group.clone()) else { return false };
        let Some(wanted) = self.state.pod_group(&name).and_then(|g| g.min_count) else { return false };
        if self.started(&name) >= wanted as usize {
            return false;
        }
        let waits = |p: &&PodEntry| {
            let place = self.queue.get(p.id).map(|w| w.place);
            p.placed.is_none() && matches!(place, Some(Place::Active | Place::Backoff(_) | Place::Unschedulable(_)))
        };
        let mut todo: Vec<&PodEntry> = self.state.members(&name).filter(waits).collect();
        todo.sort_by_key(|p| (std::cmp::Reverse(p.priority), p.created_at, p.name.clone()));
        let todo = todo.into_iter().map(|p| (p.id, p.uid.clone())).collect();
        let (placed, wanting, missed) = (Vec::new(), Vec::new(), Vec::new());
        self.gang = Some(GangAttempt { group: name, todo, placed, wanting, missed });
        true
    }

    /// Members that have a place.
    fn started(&self, group: &PodGroupName) -> usize {
        self.state.members(group).filter(|p| p.placed.is_some()).count()
    }

    /// Goes on with the attempt that is under way; returns whether it came to an end within the step budget.
    pub(super) fn continue_gang(&mut self, now: Timestamp) -> bool {
        let Some(mut gang) = self.gang.take() else { return true };
        let wanted = self.state.pod_group(&gang.group).and_then(|g| g.min_count).unwrap_or(0) as usize;
        while let Some((pod, uid)) = gang.todo.front().cloned() {
            let valid = self.state.pod(pod).is_some_and(|p| p.uid == uid && p.placed.is_none() && !p.terminating);
            if !valid || self.queue.get(pod).is_none() {
                gang.todo.pop_front();
                continue;
            }
            if self.started(&gang.group) + gang.wanting.len() + gang.todo.len() < wanted {
                break;
            }
            if !self.try_member(pod, &mut gang) {
                self.gang = Some(gang);
                return false;
            }
            gang.todo.pop_front();
        }
        self.end_gang(now, gang, wanted);
        true
    }

    /// Tries one member; false if the step budget is spent.
    fn try_member(&mut self, pod: PodId, gang: &mut GangAttempt) -> bool {
        match self.find_place(pod) {
            Placing::Busy => return false,
            Placing::NotOurs => {}
            Placing::Found(class, node, choice, plan) => {
                self.take_place(pod, &class, node, choice, plan);
                let uid = self.uid_of(pod).expect("a pod that was just placed");
                gang.placed.push((pod, uid));
            }
            Placing::Nowhere(class, message, nodes) => {
                let Some((preempts, text)) = self.search_victims(pod, &class, &message, &nodes) else { return false };
                match preempts {
                    None => gang.missed.push((pod, text)),
                    Some((node, victims)) => {
                        let new = |v: &PodId| self.state.pod(*v).is_some_and(|p| !p.preempted && !p.terminating);
                        let marked: Vec<PodId> = victims.iter().copied().filter(new).collect();
                        marked.iter().for_each(|v| self.state.mark_preempted(*v, true));
                        self.state.nominate(pod, Some(node));
                        gang.wanting.push(Wanting { pod, node, victims, marked, text });
                    }
                }
            }
        }
        self.finish_attempt(pod);
        true
    }

    fn end_gang(&mut self, now: Timestamp, mut gang: GangAttempt, wanted: usize) {
        self.state.end_decision();
        let still = |pod: &PodId, uid: &PodUid, engine: &Self| {
            let node = engine.state.pod(*pod).filter(|p| p.uid == *uid).and_then(|p| p.placed.as_ref()).map(|p| p.node);
            node.and_then(|node| engine.state.node(node)).is_some_and(|n| n.facts().is_some())
        };
        let all = gang.placed.len();
        gang.placed.retain(|(pod, uid)| still(pod, uid, self));
        let lost = gang.placed.len() < all;
        for wanting in &gang.wanting {
            wanting.marked.iter().for_each(|v| self.state.mark_preempted(*v, false));
        }
        if self.started(&gang.group) >= wanted && !lost {
            self.start_gang(now, gang);
        } else if self.started(&gang.group) + gang.wanting.len() >= wanted && !lost {
            self.make_room_for_gang(now, gang);
        } else {
            self.give_gang_up(now, gang, wanted);
        }
    }

    /// Enough have a place: they are bound. The rest is tried again one by one.
    fn start_gang(&mut self, now: Timestamp, gang: GangAttempt) {
        for (pod, _) in gang.placed {
            self.state.nominate(pod, None);
            // One pod of a class fitted; the next one that waits may fit as well.
            if let Some(class) = self.state.pod(pod).map(|p| p.class) {
                self.queue.wake(class);
            }
            match self.reserve(pod) {
                Some(why) => self.fail(now, pod, ConditionReason::Unschedulable, why),
                None => self.start_binding(now, pod),
            }
        }
        for wanting in gang.wanting {
            self.state.nominate(wanting.pod, None);
            self.park_member(now, wanting.pod, wanting.text);
        }
        for (pod, text) in gang.missed {
            self.park_member(now, pod, text);
        }
    }

    /// Enough would have a place if others went: these are evicted, and every place is kept until then.
    fn make_room_for_gang(&mut self, now: Timestamp, gang: GangAttempt) {
        let group = gang.group;
        for (pod, _) in gang.placed {
            let node = self.state.pod(pod).and_then(|p| p.placed.as_ref()).map(|p| p.node);
            self.undo_placement(pod);
            self.nominate(pod, node);
            self.park_member(now, pod, format!("pod group {group} waits for room that is being made").into());
        }
        for wanting in gang.wanting {
            // So far it was kept in our own books only.
            self.state.nominate(wanting.pod, None);
            let text = self.preempt(now, wanting.pod, wanting.node, &wanting.victims);
            self.park_member(now, wanting.pod, format!("{} {text}", wanting.text).into());
        }
        for (pod, text) in gang.missed {
            self.park_member(now, pod, text);
        }
    }

    /// Too few have a place: nobody starts.
    fn give_gang_up(&mut self, now: Timestamp, gang: GangAttempt, wanted: usize) {
        let placed = self.started(&gang.group);
        let head = format!("pod group {}: {placed} of {wanted} pods could be placed together", gang.group);
        let why = gang.missed.first().map(|(_, text)| format!("; {text}")).unwrap_or_default();
        let message: Arc<str> = format!("{head}{why}").into();
        for (pod, _) in &gang.placed {
            self.undo_placement(*pod);
        }
        let leaving = |engine: &Self, node: NodeId| {
            let pods = engine.state.node(node).map(|n| n.pods().to_vec()).unwrap_or_default();
            pods.iter().any(|p| engine.state.pod(*p).is_some_and(|p| p.preempted))
        };
        for wanting in &gang.wanting {
            self.state.nominate(wanting.pod, None);
        }
        let members: Vec<PodId> =
            self.state.members(&gang.group).filter(|p| p.placed.is_none()).map(|p| p.id).collect();
        let waits = members.iter().filter_map(|p| self.state.nominated_node(*p)).any(|node| leaving(self, node));
        for pod in members {
            if !waits {
                self.nominate(pod, None);
            }
            self.park_member(now, pod, message.clone());
        }
        // All is as it was before the attempt, and who waits has seen that.
        self.skip_own_changes();
    }

    fn park_member(&mut self, now: Timestamp, pod: PodId, message: Arc<str>) {
        let place = self.queue.get(pod).map(|w| w.place);
        let Some(class) = self.state.pod(pod).map(|p| p.class) else { return };
        if !matches!(place, Some(Place::Gated | Place::InFlight) | None) {
            self.queue.park(pod, class, self.retry_after.map(|after| now + after));
            self.say(pod, ConditionReason::Unschedulable, message);
        }
    }

    /// A group or its members changed: those that wait are asked again whether they may be tried.
    pub(super) fn regate(&mut self, group: &PodGroupName) {
        let members: Vec<PodId> = self.state.members(group).map(|p| p.id).collect();
        for pod in members {
            let place = self.queue.get(pod).map(|w| w.place);
            if matches!(place, None | Some(Place::InFlight)) {
                continue;
            }
            let Some(class) = self.state.pod(pod).map(|p| p.class) else { continue };
            let ours = profile_for(&self.profiles, self.state.class(class)).is_some();
            if ours {
                self.enqueue(pod, Some(class), None);
            }
            // One more of them may be what the others were parked for.
            if let Some(Place::Unschedulable(_)) = self.queue.get(pod).map(|w| w.place) {
                self.queue.wake_pod(pod);
            }
        }
    }
}
