//! What lies between watches and writes: facts go to the engine in order, its actions come back as effects to
//! carry out, and their answers are made sure of before the engine hears of them.
//!
//! No I/O and no clock: time is an argument, so the same inputs give the same effects. Whoever runs it
//! ([`crate::live`], or a test with a model of the API server) carries the effects out.

mod ages;
mod around;
mod binds;
mod effect;
mod explain;
mod input;
mod problems;
mod sync;
mod volumes;

use std::collections::VecDeque;

use gpu_scheduler_engine::model::{PodUid, Ticket, Timestamp};
use gpu_scheduler_engine::{Action, Condition, ConditionReason, Engine, Event, Outcome, PreBindStep, Step};

use crate::journal::Recorded;
use crate::objects;
use crate::{allocation, read_device_report, read_node, read_pod};
use ages::{Ages, Sight};
pub(crate) use around::Neighbour;
use around::Neighbours;
use binds::{Binds, Verdict};
use problems::Problems;
use sync::Sync;
use volumes::{Answered, VolumeFlights};

pub use effect::{BindOrder, Effect, VolumeWrite, Written};
pub use input::{Around, BindAnswer, Change, Input, Named, ReadAnswer, Seen, VolumeAnswer, VolumeRead};

/// What [`Driver::poll`] says.
#[allow(clippy::large_enum_variant)] // made, matched and gone: a box each would cost more than the room
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Carry this out, and poll again.
    Do(Effect),
    /// A slice of work is done and there is more: bring in what waits outside, and poll again.
    Busy,
    /// Nothing to do before the next input or [`Driver::next_wakeup`].
    Rest,
}

/// How many times as many binds may pause for want of an answer as may wait for one.
const PAUSED: usize = 16;

/// Settings of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Binds that may be on their way at once, at least 1.
    pub binds_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { binds_in_flight: 64 }
    }
}

/// One term of a leader, from empty to deposed: nothing of it outlives the term.
#[derive(Debug)]
pub struct Driver {
    engine: Recorded,
    pods: Sync<PodUid>,
    nodes: Sync<String>,
    reports: Sync<String>,
    ages: Ages,
    neighbours: Neighbours,
    binds: Binds,
    volumes: VolumeFlights,
    /// Whether anything happened that volumes on their way may wait for.
    volumes_stirred: bool,
    problems: Problems,
    effects: VecDeque<Effect>,
    limits: Limits,
    draining: bool,
}

impl Driver {
    /// A driver that has seen nothing yet, on an engine that knows nothing yet.
    pub fn new(engine: Recorded, limits: Limits) -> Self {
        Self {
            engine,
            pods: Sync::default(),
            nodes: Sync::default(),
            reports: Sync::default(),
            ages: Ages::default(),
            neighbours: Neighbours::default(),
            binds: Binds::default(),
            volumes: VolumeFlights::default(),
            volumes_stirred: false,
            problems: Problems::default(),
            effects: VecDeque::new(),
            limits: Limits { binds_in_flight: limits.binds_in_flight.max(1) },
            draining: false,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine.engine()
    }

    /// Whether all watches have delivered all there was: before that, nothing is decided.
    pub fn synced(&self) -> bool {
        self.pods.synced() && self.nodes.synced() && self.reports.synced() && self.neighbours.synced()
    }

    /// Binds on their way.
    pub fn binds_in_flight(&self) -> usize {
        self.binds.len()
    }

    /// Whether the bind of this ticket is one of them.
    pub fn is_on_its_way(&self, ticket: Ticket) -> bool {
        self.binds.contains(ticket)
    }

    /// From now on nothing new is decided; what is on its way comes to its end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Takes note of what happened outside. `O(object)`, and `O(objects of the kind)` at the end of a list.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.volumes_stirred = true;
        match input {
            Input::Nodes(change) => self.take_node(now, change),
            Input::Pods(change) => self.take_pod(now, change),
            Input::Reports(change) => self.take_report(now, change),
            Input::Around(around) => self.take_around(now, around),
            Input::BindAnswered { ticket, answer } => {
                let verdict = self.binds.answered(ticket, answer);
                self.settle(now, verdict);
            }
            Input::EvictionRefused { uid, preemptor } => {
                self.engine.handle(now, Event::EvictionRefused { uid, preemptor });
            }
            Input::VolumeAnswered { ticket, index, answer } => {
                let answered = self.volumes.answered(ticket, index, answer, self.engine.engine().state());
                self.settle_volumes(now, ticket, answered);
            }
            Input::VolumeReadBack { ticket, index, answer } => {
                let answered = self.volumes.read_back(now, ticket, index, answer);
                self.settle_volumes(now, ticket, answered);
            }
            Input::ReadBack { ticket, answer } => {
                let verdict = self.binds.read_back(now, ticket, answer);
                self.settle(now, verdict);
                self.tell_overdue(ticket);
            }
        }
    }

    /// What to do next. One call does at most one poll of the engine.
    pub fn poll(&mut self, now: Timestamp) -> Turn {
        self.effects.extend(self.binds.due(now));
        self.go_on_with_volumes(now);
        if let Some(effect) = self.effects.pop_front() {
            return Turn::Do(effect);
        }
        if !self.synced() || self.draining || self.is_full() {
            return Turn::Rest;
        }
        match self.engine.poll(now) {
            Step::Rest => Turn::Rest,
            Step::Busy => Turn::Busy,
            Step::Act(action) => match self.effect(now, action) {
                Some(effect) => Turn::Do(effect),
                None => Turn::Busy,
            },
        }
    }

    /// Whether as many binds are on their way as may be, or too many get no answer.
    fn is_full(&self) -> bool {
        self.binds.waiting() >= self.limits.binds_in_flight || self.binds.len() >= self.limits.binds_in_flight * PAUSED
    }

    /// When to poll again if nothing happens before.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let engine = if self.synced() && !self.draining && !self.is_full() { self.engine.next_wakeup() } else { None };
        [engine, self.binds.next_due(), self.volumes.next_due()].into_iter().flatten().min()
    }

    /// An action as something to carry out; `None` where it is answered at once.
    fn effect(&mut self, now: Timestamp, action: Action) -> Option<Effect> {
        Some(match action {
            Action::Bind { ticket, uid, pod, node, allocation } => {
                // Now: once the watch shows the pod bound, the queue knows nothing of it any more.
                let attempted = self.engine().attempted(&uid);
                let order = BindOrder {
                    attempts: attempted.map_or(1, |a| a.attempts),
                    created_at: attempted.map_or(now, |a| a.created_at),
                    profile: attempted.map(|a| a.profile.to_owned()).unwrap_or_default(),
                    record: (!allocation.containers.is_empty()).then(|| allocation::serialise(&allocation)),
                    ticket,
                    uid,
                    pod,
                    node,
                };
                self.binds.start(order.clone());
                Effect::Bind(order)
            }
            Action::PreBind { ticket, uid, pod, node, step: PreBindStep::BindVolumes(plan) } => {
                self.volumes.start(now, ticket, (uid, pod), node, plan);
                self.volumes_stirred = true;
                return None;
            }
            Action::PreBind { ticket, step: PreBindStep::Other { plugin, work }, .. } => {
                // No other plugin of ours asks for preparations: one that does must come with whoever carries them out.
                let why = format!("{plugin}: nobody carries out its preparation {work:?}");
                self.engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Failed(why) });
                return None;
            }
            Action::SetCondition { uid, pod, condition } => {
                // A pod that does not wait any more has nothing to say.
                let profile = self.engine().attempted(&uid)?.profile.to_owned();
                Effect::Say { uid, pod, condition, profile }
            }
            Action::Evict { uid, pod, node, reason, message, preemptor } => {
                Effect::Evict { uid, pod, node, reason, message, preemptor }
            }
            Action::Nominate { uid, pod, node } => Effect::Nominate { uid, pod, node },
            Action::Report(notice) => Effect::Report(notice),
        })
    }

    /// A bind without an answer is told of, so that the pod does not hang without a word.
    fn tell_overdue(&mut self, ticket: Ticket) {
        let Some((order, why)) = self.binds.overdue(ticket) else { return };
        let message = format!(
            "binding to node {} gets no answer that says whether it took effect, and is asked for again: {why}",
            order.node
        );
        self.effects.push_back(Effect::Say {
            uid: order.uid.clone(),
            pod: order.pod.clone(),
            condition: Condition {
                reason: ConditionReason::SchedulerError,
                message: message.into(),
                again: false,
                generation: 0,
            },
            profile: order.profile.clone(),
        });
    }

    fn settle(&mut self, now: Timestamp, verdict: Verdict) {
        match verdict {
            Verdict::Open => {}
            Verdict::Ask(effect) => self.effects.push_back(effect),
            Verdict::Bound(order) => {
                let ticket = order.ticket;
                self.effects.push_back(Effect::Announce(order));
                self.engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
            }
            Verdict::Failed(order, why) => {
                let outcome = Outcome::Failed(why);
                self.engine.handle(now, Event::ActionFinished { ticket: order.ticket, outcome });
            }
        }
    }

    /// Pods whose volumes are on their way.
    pub fn volumes_in_flight(&self) -> usize {
        self.volumes.len()
    }

    fn go_on_with_volumes(&mut self, now: Timestamp) {
        let due = self.volumes.next_due().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.volumes_stirred) && !due {
            return;
        }
        let (effects, ends) = self.volumes.go_on(now, self.engine.engine().state());
        self.effects.extend(effects);
        for (ticket, end) in ends {
            let outcome = end.map_or_else(Outcome::Failed, |()| Outcome::Done);
            self.engine.handle(now, Event::ActionFinished { ticket, outcome });
        }
    }

    fn settle_volumes(&mut self, now: Timestamp, ticket: Ticket, answered: Answered) {
        match answered {
            Answered::Open => {}
            Answered::Ask(effect) => self.effects.push_back(effect),
            Answered::Failed(why) => {
                self.engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Failed(why) });
            }
        }
    }

    fn take_node(&mut self, now: Timestamp, change: Change<objects::Node>) {
        let key = |seen: &Seen<objects::Node>| seen.metadata().name.clone();
        match change {
            Change::Restarted => self.nodes.restart(),
            Change::Listed(seen) | Change::Applied(seen) => {
                self.nodes.saw(key(&seen));
                if let Some(node) = self.problems.readable("Node", seen, &mut self.effects, read_node) {
                    self.engine.handle(now, Event::NodeApplied(Box::new(node)));
                }
            }
            Change::Deleted(seen) => {
                let name = key(&seen);
                self.nodes.lost(&name);
                self.problems.forget("Node", "", &name);
                self.engine.handle(now, Event::NodeDeleted { name });
            }
            Change::Synced | Change::Absent => {
                let known = self.engine.engine().state().live_nodes().map(|n| n.name().to_string());
                let gone: Vec<_> = self.nodes.finish(known);
                for name in gone {
                    self.engine.handle(now, Event::NodeDeleted { name });
                }
            }
        }
    }

    fn take_pod(&mut self, now: Timestamp, change: Change<objects::Pod>) {
        let key = |seen: &Seen<objects::Pod>| PodUid::from(seen.metadata().uid.as_deref().unwrap_or_default());
        match change {
            Change::Restarted => self.pods.restart(),
            Change::Listed(seen) | Change::Applied(seen) => {
                self.pods.saw(key(&seen));
                if let Some(fact) = self.problems.readable("Pod", seen, &mut self.effects, read_pod) {
                    self.engine.handle(now, fact.into());
                }
            }
            Change::Deleted(seen) => {
                let (namespace, name) = seen.reference();
                self.problems.forget("Pod", &namespace, &name);
                let uid = key(&seen);
                self.pods.lost(&uid);
                self.engine.handle(now, Event::PodDeleted { uid });
            }
            Change::Synced | Change::Absent => {
                let gone = self.pods.finish(self.engine.engine().state().pods().map(|p| p.uid.clone()));
                for uid in gone {
                    self.engine.handle(now, Event::PodDeleted { uid });
                }
            }
        }
    }

    fn take_report(&mut self, now: Timestamp, change: Change<objects::GpuNodeState>) {
        match change {
            Change::Restarted => self.reports.restart(),
            Change::Listed(seen) => self.take_seen_report(now, seen, Sight::Listed),
            Change::Applied(seen) => self.take_seen_report(now, seen, Sight::Applied),
            Change::Deleted(seen) => {
                let node = seen.metadata().name.clone();
                self.reports.lost(&node);
                self.ages.forget(&node);
                self.problems.forget("GPUNodeState", "", &node);
                self.engine.handle(now, Event::DeviceReportDeleted { node });
            }
            Change::Synced | Change::Absent => {
                let nodes = self.engine.engine().state().nodes();
                let known = nodes.filter(|n| n.report().is_some()).map(|n| n.name().to_string());
                let gone: Vec<_> = self.reports.finish(known);
                for node in gone {
                    self.ages.forget(&node);
                    self.engine.handle(now, Event::DeviceReportDeleted { node });
                }
            }
        }
    }

    fn take_seen_report(&mut self, now: Timestamp, seen: Seen<objects::GpuNodeState>, sight: Sight) {
        self.reports.saw(seen.metadata().name.clone());
        let report = self.problems.readable("GPUNodeState", seen, &mut self.effects, read_device_report);
        if let Some(mut report) = report.flatten() {
            report.updated_at = self.ages.written(now, &report.node, report.updated_at, sight);
            self.engine.handle(now, Event::DevicesReported(Box::new(report)));
        }
    }
}

#[cfg(test)]
mod tests;
