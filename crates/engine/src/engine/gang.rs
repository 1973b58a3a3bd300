//! Pods of a gang are placed one after another while nobody else is tried, and started all together or not at all.

use std::sync::Arc;

use crate::contract::ConditionReason;
use crate::engine::cycle::Placing;
use crate::engine::{Engine, profile_for};
use crate::model::{NodeId, PodGroupName, PodId, Timestamp};
use crate::queue::Place;
use crate::state::PodEntry;

/// An attempt to place a gang. It begins and ends within one poll, however many steps that takes: nothing that happens
/// outside comes between, and slots and books stay what they are.
#[derive(Debug)]
struct GangAttempt {
    group: PodGroupName,
    /// Pods that have a place in our books.
    placed: Vec<PodId>,
    /// Pods that would have one if others went: where, and who.
    wanting: Vec<Wanting>,
    /// Pods that have none, and what they say.
    missed: Vec<(PodId, Arc<str>)>,
}

#[derive(Debug)]
struct Wanting {
    pod: PodId,
    node: NodeId,
    victims: Vec<PodId>,
    /// Those of them that were not on their way before.
    marked: Vec<PodId>,
    /// The node that was kept for it before the attempt.
    kept: Option<NodeId>,
    text: Arc<str>,
}

impl Engine {
    /// Tries all of a pod's gang; false if the pod starts alone, or after enough of its gang have started.
    pub(super) fn try_gang(&mut self, now: Timestamp, pod: PodId) -> bool {
        let Some(name) = self.state.pod(pod).and_then(|p| p.group.clone()) else { return false };
        let Some(wanted) = self.state.pod_group(&name).and_then(|g| g.min_count) else { return false };
        let (wanted, started) = (wanted as usize, self.started(&name));
        if started >= wanted {
            return false;
        }
        let waits = |p: &&PodEntry| {
            let place = self.queue.get(p.id).map(|w| w.place);
            let may = matches!(place, Some(Place::Active | Place::Backoff(_) | Place::Unschedulable(_)));
            p.placed.is_none() && !p.terminating && may
        };
        let mut todo: Vec<&PodEntry> = self.state.members(&name).filter(waits).collect();
        todo.sort_by_key(|p| (std::cmp::Reverse(p.priority), p.created_at, p.name.clone()));
        let todo: Vec<PodId> = todo.into_iter().map(|p| p.id).collect();
        let mut gang = GangAttempt { group: name, placed: Vec::new(), wanting: Vec::new(), missed: Vec::new() };
        for (tried, pod) in todo.iter().enumerate() {
            if started + gang.placed.len() + gang.wanting.len() + (todo.len() - tried) < wanted {
                break;
            }
            while !self.try_member(*pod, &mut gang) {
                self.steps = self.steps_per_poll;
            }
        }
        self.end_gang(now, gang, wanted);
        true
    }

    /// Members that have a place.
    fn started(&self, group: &PodGroupName) -> usize {
        self.state.members(group).filter(|p| p.placed.is_some()).count()
    }

    /// Tries one member; false if the step budget is spent.
    fn try_member(&mut self, pod: PodId, gang: &mut GangAttempt) -> bool {
        match self.find_place(pod) {
            Placing::Busy => return false,
            Placing::NotOurs => {}
            Placing::Found(class, node, choice, plan) => {
                self.take_place(pod, &class, node, choice, plan);
                gang.placed.push(pod);
            }
            Placing::Nowhere(class, message, nodes) => {
                let chosen: Vec<PodId> = gang.wanting.iter().flat_map(|w| &w.marked).copied().collect();
                let found = self.search_victims(pod, &class, &message, &nodes, &chosen);
                let Some((preempts, text)) = found else { return false };
                match preempts {
                    None => gang.missed.push((pod, text)),
                    Some((node, victims)) => {
                        let new = |v: &PodId| self.state.pod(*v).is_some_and(|p| !p.is_leaving());
                        let marked: Vec<PodId> = victims.iter().copied().filter(new).collect();
                        marked.iter().for_each(|v| self.state.mark_preempted(*v, true));
                        let kept = self.state.nominated_node(pod);
                        self.state.nominate(pod, Some(node));
                        gang.wanting.push(Wanting { pod, node, victims, marked, kept, text });
                    }
                }
            }
        }
        self.finish_attempt(pod);
        true
    }

    fn end_gang(&mut self, now: Timestamp, gang: GangAttempt, wanted: usize) {
        self.state.end_decision();
        for wanting in &gang.wanting {
            wanting.marked.iter().for_each(|v| self.state.mark_preempted(*v, false));
        }
        let started = self.started(&gang.group);
        if started >= wanted {
            self.start_gang(now, gang);
        } else if started + gang.wanting.len() >= wanted {
            self.make_room_for_gang(now, gang);
        } else {
            self.give_gang_up(now, gang, wanted);
        }
    }

    /// Enough have a place: they are bound. The rest is tried again one by one.
    fn start_gang(&mut self, now: Timestamp, gang: GangAttempt) {
        // What was kept for the attempt is in nobody's way.
        for pod in &gang.placed {
            self.nominate_in_books(*pod, None);
        }
        for wanting in &gang.wanting {
            self.nominate_in_books(wanting.pod, wanting.kept);
        }
        for pod in gang.placed {
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
            self.park_member(now, wanting.pod, wanting.text);
        }
        for (pod, text) in gang.missed {
            self.park_member(now, pod, text);
        }
    }

    /// Enough would have a place if others went: these are evicted, and every place is kept until then.
    fn make_room_for_gang(&mut self, now: Timestamp, gang: GangAttempt) {
        let group = gang.group;
        let placed: Vec<_> = gang.placed.iter().map(|pod| (*pod, self.node_of(*pod))).collect();
        for pod in gang.placed {
            self.undo_placement(pod);
        }
        for wanting in &gang.wanting {
            // So far it was kept in our own books only.
            self.state.nominate(wanting.pod, wanting.kept);
        }
        // All is as it was before the attempt. That wakes nobody: the members that have room would try the whole gang again
        // at once, and come to the same end for as long as the others' victims take to go. What changes from here on is news.
        self.skip_own_changes();
        for (pod, node) in placed {
            self.nominate(pod, node);
            self.park_member(now, pod, format!("pod group {group} waits for room that is being made").into());
        }
        for wanting in gang.wanting {
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
        for pod in &gang.placed {
            self.undo_placement(*pod);
        }
        for wanting in &gang.wanting {
            self.state.nominate(wanting.pod, wanting.kept);
        }
        // All is as it was before the attempt, and who waits has seen that.
        self.skip_own_changes();
        let leaving = |engine: &Self, node: NodeId| {
            let pods = engine.state.node(node).map(|n| n.pods().to_vec()).unwrap_or_default();
            pods.iter().any(|p| engine.state.pod(*p).is_some_and(|p| p.preempted))
        };
        let members: Vec<PodId> =
            self.state.members(&gang.group).filter(|p| p.placed.is_none()).map(|p| p.id).collect();
        let waits = members.iter().filter_map(|p| self.state.nominated_node(*p)).any(|node| leaving(self, node));
        for pod in members {
            if !waits {
                self.nominate(pod, None);
            }
            self.park_member(now, pod, message.clone());
        }
    }

    fn park_member(&mut self, now: Timestamp, pod: PodId, message: Arc<str>) {
        let place = self.queue.get(pod).map(|w| w.place);
        let Some(class) = self.state.pod(pod).map(|p| p.class) else { return };
        if !matches!(place, Some(Place::Gated | Place::InFlight) | None) {
            self.queue.park(pod, class, self.retry_after.map(|after| now + after));
            self.say(pod, ConditionReason::Unschedulable, message);
        }
    }

    /// A member came, or `left`: the others are asked again only where it is the one that makes the difference.
    pub(super) fn regate_if_flipped(&mut self, group: &PodGroupName, left: bool) {
        let Some(wanted) = self.state.pod_group(group).and_then(|g| g.min_count) else { return };
        let known = self.state.members(group).filter(|p| !p.terminating).count();
        if known + usize::from(left) == wanted as usize {
            self.regate(group);
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
