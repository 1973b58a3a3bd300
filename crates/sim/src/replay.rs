//! Drives the engine with a trace: pods arrive one by one, never leave; one that does not fit is dropped.
//! The protocol of the FGD study.

use std::time::{Duration, Instant};

use gpu_scheduler_engine::ledger::Headroom;
use gpu_scheduler_engine::model::{PodUid, Timestamp};
use gpu_scheduler_engine::plugins::fragment;
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome, Policy, Step};

use crate::openb::{Arrivals, TraceNode, TracePod};
use crate::report::{Decisions, Run};

/// One policy on one order of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The nodes, sorted by name.
    pub nodes: &'a [TraceNode],
    /// The pods.
    pub pods: &'a [TracePod],
    /// Who arrives when.
    pub arrivals: &'a Arrivals,
    /// The policy.
    pub policy: Policy,
    /// For the report.
    pub seed: Option<u64>,
}

impl Replay<'_> {
    /// Runs it; `progress` is told how many pods have arrived.
    pub fn run(&self, mut progress: impl FnMut(usize)) -> Run {
        let mut config = Config::with_policy(self.policy.seeded(self.seed.unwrap_or(0)));
        config.mix = Some(self.pods.iter().map(TracePod::declared).collect());
        let scheduler = config.profiles[0].scheduler.clone();
        let mut engine = Engine::new(config);
        for node in &self.arrivals.nodes {
            engine.handle(Timestamp(0), Event::NodeApplied(Box::new(self.nodes[*node].to_node())));
        }
        let mut gauge = Gauge::default();
        let capacity: u64 = self.nodes.iter().map(|n| 1000 * u64::from(n.gpus)).sum();
        let mut run = Run::new("openb", self.policy.name(), self.seed, capacity);
        let mut times: Vec<Duration> = Vec::with_capacity(self.arrivals.pods.len());
        for (n, row) in self.arrivals.pods.iter().enumerate() {
            let trace_pod = &self.pods[*row];
            let now = Timestamp(n as u64);
            let uid = format!("{n}");
            let mut pod = trace_pod.to_pod(&uid, &scheduler);
            pod.created_at = now;
            let started = Instant::now();
            engine.handle(now, Event::PodApplied(Box::new(pod)));
            let placed = drive(&mut engine, now, &PodUid::from(uid.as_str()));
            times.push(started.elapsed());
            gauge.update(engine.state());
            run.arrival(trace_pod.gpu_milli(), placed, gauge.held, gauge.fragment(engine.state()));
            progress(n + 1);
        }
        run.finish(Decisions::of(times));
        run
    }
}

/// Polls until the engine rests; carries binds out at once, and drops the pod if it has to wait.
fn drive(engine: &mut Engine, now: Timestamp, pod: &PodUid) -> bool {
    let mut placed = false;
    loop {
        match engine.poll(now) {
            Step::Act(Action::Bind { ticket, .. } | Action::PreBind { ticket, .. }) => {
                placed = true;
                engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
            }
            Step::Act(Action::SetCondition { .. }) => {
                engine.handle(now, Event::PodDeleted { uid: pod.clone() });
            }
            Step::Act(Action::Report(_)) | Step::Busy => {}
            Step::Rest => return placed,
        }
    }
}

/// What is held and fragmented over all nodes, kept up by looking at the nodes that changed.
#[derive(Debug, Default)]
struct Gauge {
    seen: u64,
    by_node: Vec<(u64, i128)>,
    held: u64,
    fragment: i128,
}

impl Gauge {
    fn update(&mut self, state: &State) {
        self.by_node.resize(state.node_slots(), (0, 0));
        for (_, id) in state.changed_since(self.seen) {
            let (held, lost) = state.node(id).map_or((0, 0), |node| {
                let headroom: &Headroom = node.headroom();
                (u64::from(node.ledger().held().0), fragment(state.mix(), state.models(), headroom))
            });
            let known = &mut self.by_node[id.index()];
            self.held = self.held + held - known.0;
            self.fragment += lost - known.1;
            *known = (held, lost);
        }
        self.seen = state.generation();
    }

    /// In thousandths of a card.
    fn fragment(&self, state: &State) -> u64 {
        u64::try_from(self.fragment / i128::from(state.mix().weight().max(1))).unwrap_or(0)
    }
}
