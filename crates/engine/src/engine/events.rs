//! Facts, one by one.

use crate::contract::{ConditionReason, Event, Notice};
use crate::engine::Engine;
use crate::framework::ShareMode;
use crate::model::{Assignment, Demand, DeviceReport, Pod, PodId, PodUid, Timestamp};
use crate::queue::Place;
use crate::state::Stage;

impl Engine {
    pub(super) fn take_event(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::NodeApplied(node) => {
                self.state.apply_node(&node);
                self.stir_named(&node.name);
            }
            // Its report, if there is one, stays until it is deleted itself.
            Event::NodeDeleted { name } => {
                self.abandon_node(now, &name);
                let kept: Vec<PodId> = match self.state.node_named(&name) {
                    Some(node) => self.state.nominated_on(node.id()).collect(),
                    None => Vec::new(),
                };
                kept.iter().for_each(|pod| self.nominate(*pod, None));
                self.state.delete_node(&name);
                kept.into_iter().for_each(|pod| self.queue.wake_pod(pod));
            }
            Event::DevicesReported(report) => self.take_report(now, &report),
            Event::DeviceReportDeleted { node } => {
                if let Some(node) = self.state.node_named(&node) {
                    self.leases.end(node.id());
                }
                self.state.drop_report(&node, false);
                self.stir_named(&node);
            }
            Event::PodApplied(pod) => self.take_pod(*pod),
            Event::PodDeleted { uid } => self.lose_pod(&uid),
            Event::NamespaceApplied { name, labels } => self.state.apply_namespace(&name, Some(&labels)),
            Event::NamespaceDeleted { name } => self.state.apply_namespace(&name, None),
            Event::WorkloadApplied(workload) => self.state.apply_workload(&workload),
            Event::WorkloadDeleted(name) => self.state.delete_workload(&name),
            Event::DisruptionBudgetApplied(budget) => self.state.apply_budget(*budget),
            Event::DisruptionBudgetDeleted { namespace, name } => self.state.delete_budget(&namespace, &name),
            Event::StorageApplied(object) => self.state.apply_storage(*object),
            Event::StorageDeleted(key) => self.state.delete_storage(&key),
            Event::PodGroupApplied(group) => {
                let name = group.name.clone();
                self.state.apply_pod_group(*group);
                self.regate(&name);
            }
            Event::PodGroupDeleted(name) => {
                self.state.delete_pod_group(&name);
                self.regate(&name);
            }
            Event::EvictionRefused { uid, preemptor } => self.keep_victim(now, &uid, &preemptor),
            Event::ActionFinished { ticket, outcome } => self.finish_action(now, ticket, outcome),
        }
    }

    /// Placements on a node that is gone are given up, where nothing irrevocable is out yet.
    fn abandon_node(&mut self, now: Timestamp, name: &str) {
        let pods = self.state.node_named(name).map(|n| n.pods().to_vec()).unwrap_or_default();
        for pod in pods {
            if self.bindings.is_early(pod) {
                self.fail(now, pod, ConditionReason::SchedulerError, format!("node {name} was deleted"));
            }
        }
    }

    fn stir_named(&mut self, node: &str) {
        if let Some(node) = self.state.node_named(node).map(|n| n.id()) {
            self.bindings.turnstile.stir(node);
        }
    }

    fn take_report(&mut self, now: Timestamp, report: &DeviceReport) {
        let until = report.updated_at + self.report_lease;
        let node = self.state.apply_report(report, until > now);
        self.bindings.turnstile.stir(node);
        if until > now {
            self.leases.set(node, report.node.as_str().into(), until);
        } else {
            self.leases.end(node);
        }
    }

    fn take_pod(&mut self, mut pod: Pod) {
        if let (Some(_), Some(assignment)) = (pod.started_at, &pod.assignment) {
            self.stir_named(&assignment.node);
        }
        let profile = self.profile_index(&pod.scheduler);
        if pod.assignment.is_none() && profile.is_none() {
            // Another scheduler's pending pod is none of our business, unless it was ours before. One that is known
            // to be bound stays so: this is a version from before.
            if self.state.pod_of(&pod.uid).and_then(|p| p.placed.as_ref()).is_none_or(|p| p.stage == Stage::Assumed) {
                self.lose_pod(&pod.uid);
            }
            return;
        }
        if let Some(profile) = profile
            && pod.assignment.is_none() // a record says what it holds
            && self.profiles[usize::from(profile)].1.share_mode() == ShareMode::WholeCards
        {
            take_whole_cards(&mut pod);
        }
        let known = self.state.pod_of(&pod.uid).map(|p| (p.id, p.class, p.placed.as_ref().map(|p| p.stage)));
        let known_nothing = known.is_none();
        let id = self.state.apply_pod(&pod, profile);
        if known.is_none() && profile.is_some() {
            self.state.count_arrival(id);
        }
        match (&pod.assignment, known.as_ref().and_then(|(_, _, stage)| *stage)) {
            (Some(assignment), _) => {
                let class = self.state.pod(id).map(|p| p.class);
                let other_request = known.as_ref().is_some_and(|(_, old, _)| Some(*old) != class);
                self.observe_assignment(id, assignment, other_request);
            }
            // A confirmed bind is a fact; a version of the pod from before it changes nothing.
            (None, Some(Stage::Bound)) => {}
            (None, Some(Stage::Assumed)) if pod.terminating => {
                self.forget_binding(id);
                self.undo_placement(id);
                self.queue.remove(id);
            }
            (None, Some(Stage::Assumed)) => {}
            (None, None) if pod.terminating => self.queue.remove(id),
            (None, None) => {
                if known.is_none() {
                    self.restore_nomination(id, pod.nominated_node.as_deref());
                }
                let said = pod.said.as_deref().filter(|_| known_nothing);
                self.enqueue(id, known.map(|(_, class, _)| class), said);
            }
        }
        if pod.assignment.is_some() || pod.terminating {
            self.state.nominate(id, None);
        }
        if let Some(group) = pod.group.as_ref().filter(|_| known_nothing || pod.terminating) {
            self.regate_if_flipped(group, pod.terminating);
        }
    }

    /// Room that was being made for a pod before this engine knew of it.
    fn restore_nomination(&mut self, id: PodId, node: Option<&str>) {
        // A list of pods may come before that of nodes. Of a node that is no more the pod's next attempt lets go, and says so.
        if let Some(node) = node {
            let node = self.state.node_slot(node);
            self.state.nominate(id, Some(node));
        }
    }

    /// A pod that waits: to the queue, unless nothing that matters has changed since it was put there. `said` is what it
    /// says already.
    pub(super) fn enqueue(&mut self, id: PodId, old_class: Option<crate::model::ClassId>, said: Option<&str>) {
        let Some(entry) = self.state.pod(id) else { return };
        let (priority, created_at, class) = (entry.priority, entry.created_at, entry.class);
        let gate = self
            .profile_of(id)
            .and_then(|p| p.pre_enqueues().iter().find_map(|plugin| plugin.pre_enqueue(&self.state, entry)));
        let waits = gate.as_ref().filter(|reason| reason.is_told()).map(|r| r.text(self.state.symbols()).into_owned());
        let place = match (gate, self.queue.get(id).map(|w| w.place)) {
            (Some(_), _) => Place::Gated,
            (None, Some(place @ (Place::Backoff(_) | Place::Active))) => place,
            (None, Some(place @ Place::Unschedulable(_))) if old_class == Some(class) => place,
            (None, _) => Place::Active,
        };
        if old_class.is_some_and(|old| old != class) {
            self.queue.pass_turn(id);
        }
        self.queue.put(id, priority, created_at, place);
        if let (Some(said), Some(waiting)) = (said, self.queue.get_mut(id)) {
            waiting.message = Some(said.into());
        }
        if let Some(why) = waits {
            self.say(id, ConditionReason::Unschedulable, why.into());
        }
    }

    /// A pod is bound, whoever did it. With another request than before, its record is held against that.
    fn observe_assignment(&mut self, id: PodId, assignment: &Assignment, other_request: bool) {
        let Some(entry) = self.state.pod(id) else { return };
        let name = entry.name.clone();
        let late = self.queue.get(id).is_some();
        let known = entry.placed.clone();
        let node_of = |id| self.state.node(id).map(|n| n.name().clone());
        match known {
            Some(placed) if node_of(placed.node).as_deref() == Some(assignment.node.as_str()) => {
                // Our own bind seen, or a later version of the pod. Only another record changes anything.
                let other = assignment.allocation.as_ref().filter(|r| other_request || !placed.stands_for(r));
                if placed.stage == Stage::Assumed {
                    self.bound(id);
                }
                if let Some(record) = other {
                    self.state.observe(id, &assignment.node, Some(record));
                }
            }
            Some(placed) => {
                if placed.stage == Stage::Assumed {
                    let (ours, theirs) = (node_of(placed.node).unwrap_or_default(), assignment.node.as_str().into());
                    self.outbox.push_back(crate::contract::Action::Report(Notice::BoundElsewhere {
                        pod: name,
                        ours,
                        theirs,
                    }));
                    self.forget_binding(id);
                    self.undo_placement(id);
                }
                self.queue.remove(id);
                self.observe_bind(id, assignment, late);
            }
            None => {
                self.queue.remove(id);
                self.observe_bind(id, assignment, late);
            }
        }
    }

    /// A bind that is not ours. `late`: the pod was in our queue, so one of our kind bound it with knowledge older
    /// than ours, or another scheduler did.
    fn observe_bind(&mut self, id: PodId, assignment: &Assignment, late: bool) {
        let record = assignment.allocation.as_ref();
        self.state.observe(id, &assignment.node, record);
        if late && record.is_some() {
            self.settle_late_bind(id, &assignment.node);
        }
    }

    fn lose_pod(&mut self, uid: &PodUid) {
        let group = self.state.pod_of(uid).and_then(|p| p.group.clone());
        self.forget_pod(uid);
        if let Some(group) = group {
            self.regate_if_flipped(&group, true);
        }
    }

    fn forget_pod(&mut self, uid: &PodUid) {
        let Some(id) = self.state.pod_of(uid).map(|p| p.id) else { return };
        self.forget_binding(id);
        self.queue.remove(id);
        self.late.remove(&id);
        if self.state.pod(id).and_then(|p| p.placed.as_ref()).is_some_and(|p| p.stage == Stage::Assumed) {
            self.undo_placement(id);
        }
        self.state.remove_pod(id);
    }
}

/// As a cluster that only counts cards sees it: a share takes its card whole.
fn take_whole_cards(pod: &mut Pod) {
    for demand in pod.containers.iter_mut().flat_map(|c| &mut c.gpu) {
        if let Demand::Share { count, .. } = demand {
            *demand = Demand::Cards { count: *count };
        }
    }
}
