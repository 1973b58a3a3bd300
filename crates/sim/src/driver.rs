//! A virtual cluster: carries out at once what the engine says.

use gpu_scheduler_engine::model::{Node, Pod, PodUid, Timestamp};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Action, Config, DeclaredPod, Engine, Event, Outcome, Policy, Step};

/// The engine with its cluster. Pods are numbered by whoever drives it.
pub(crate) struct Driver {
    engine: Engine,
    scheduler: String,
}

impl Driver {
    /// An empty cluster. Wake-ups are exact, so no pod is tried again where nothing changed for it.
    pub fn new(policy: Policy, seed: Option<u64>, mix: Option<Vec<DeclaredPod>>) -> Self {
        let mut config = Config::with_policy(policy.seeded(seed.unwrap_or(0)));
        config.mix = mix;
        config.retry_after = None;
        let scheduler = config.profiles[0].scheduler.clone();
        Self { engine: Engine::new(config), scheduler }
    }

    /// `spec.schedulerName` of its pods.
    pub fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// The cluster as the engine sees it.
    pub fn state(&self) -> &State {
        self.engine.state()
    }

    /// How many pods were tried.
    pub fn decisions(&self) -> u64 {
        self.engine.decisions()
    }

    /// A node is there from the start.
    pub fn add_node(&mut self, node: Node) {
        self.engine.handle(Timestamp(0), Event::NodeApplied(Box::new(node)));
    }

    /// A pod arrives. Its UID must be [`Driver::uid`] of its number.
    pub fn arrive(&mut self, now: Timestamp, pod: Pod) {
        self.engine.handle(now, Event::PodApplied(Box::new(pod)));
    }

    /// A pod ends, or gives up.
    pub fn leave(&mut self, now: Timestamp, number: usize) {
        let uid = PodUid::from(Self::uid(number).as_str());
        self.engine.handle(now, Event::PodDeleted { uid });
    }

    /// The UID of a pod by its number.
    pub fn uid(number: usize) -> String {
        number.to_string()
    }

    /// Polls until the engine rests; binds take effect at once. `started` is told the numbers of pods that run now.
    pub fn settle(&mut self, now: Timestamp, mut started: impl FnMut(usize)) {
        loop {
            match self.engine.poll(now) {
                Step::Act(Action::Bind { ticket, uid, .. }) => {
                    self.engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
                    started(uid.0.parse().expect("UIDs are the numbers that this driver's user gave"));
                }
                Step::Act(Action::PreBind { ticket, .. }) => {
                    self.engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
                }
                // All pods of a trace have one priority: nobody makes room for another.
                Step::Act(
                    Action::SetCondition { .. } | Action::Evict { .. } | Action::Nominate { .. } | Action::Report(_),
                )
                | Step::Busy => {}
                Step::Rest => return,
            }
        }
    }
}
