//! The engine: events in, actions out.

mod admission;
mod binding;
mod config;
mod cycle;
mod double_hold;
mod events;
mod explain;
mod forecast;
mod gang;
mod pending;
mod rescue;
mod snapshot;
mod wakeup;

use std::collections::{BTreeSet, VecDeque};

pub use config::{Config, ProfileConfig};
pub use explain::{Explanation, NodeExplanation, NodeVerdict, PodPhase};
pub use pending::{Attempted, Pending, Preemptions};
pub use snapshot::{RestoreError, Snapshot};

use crate::contract::{Action, Event, Step};
use crate::framework::{ClassCaches, Profile};
use crate::model::{Millis, NodeId, PodId, PodUid, Timestamp};
use crate::preemption::Search;
use crate::queue::Queue;
use crate::state::{Class, State};
use binding::Bindings;
use wakeup::Leases;
use wakeup::WakeCursor;

/// The engine. It has no clock, no I/O and no randomness: the same events at the same times give the same
/// actions, always.
///
/// ```
/// use gpu_scheduler_engine::{Action, Config, Engine, Event, Step};
/// use gpu_scheduler_engine::model::{Node, Pod, Quantity, Timestamp};
///
/// let mut engine = Engine::new(Config::default());
/// let now = Timestamp(0);
/// let mut node = Node { name: "n1".into(), ..Node::default() };
/// node.allocatable.insert("cpu".into(), Quantity::units(4));
/// engine.handle(now, Event::NodeApplied(Box::new(node)));
/// let mut pod = Pod::new("uid-1", "default", "a");
/// pod.scheduler = "gpu-scheduler".into();
/// engine.handle(now, Event::PodApplied(Box::new(pod)));
/// let Step::Act(Action::Bind { node, .. }) = engine.poll(now) else { panic!("it fits") };
/// assert_eq!(&*node, "n1");
/// ```
#[derive(Debug)]
pub struct Engine {
    state: State,
    profiles: Vec<(String, Profile)>,
    queue: Queue,
    caches: ClassCaches,
    bindings: Bindings,
    outbox: VecDeque<Action>,
    wake: WakeCursor,
    leases: Leases,
    /// Pods that somebody else bound onto a card to which a bind of ours is on its way.
    late: BTreeSet<PodId>,
    /// The search for victims that is under way, for the head of the queue.
    search: Option<(PodUid, Search)>,
    preemptions: Preemptions,
    report_lease: Millis,
    retry_after: Option<Millis>,
    reuse_evaluations: bool,
    /// Without reuse: the pod that the present evaluations are for. A search may take several polls.
    evaluated_for: Option<PodId>,
    steps_per_poll: u32,
    /// Steps left of the present poll.
    steps: u32,
    decisions: u64,
    #[cfg(feature = "planted-bugs")]
    forgets_failures: bool,
}

impl Engine {
    /// An engine that knows nothing yet.
    ///
    /// # Panics
    /// If there are more than 255 profiles, or two of one name.
    pub fn new(config: Config) -> Self {
        assert!(config.profiles.len() <= 255, "an engine takes at most 255 profiles");
        for (at, profile) in config.profiles.iter().enumerate() {
            let again = config.profiles[..at].iter().any(|p| p.scheduler == profile.scheduler);
            assert!(!again, "two profiles are called {:?}", profile.scheduler);
        }
        let mut state = State::new(config.foreign_tolerance);
        if config.profiles.iter().any(|p| p.profile.wants_prices()) {
            state.enable_prices();
        }
        if let Some(pods) = &config.mix {
            state.declare_mix(pods);
        }
        let profiles = config.profiles.into_iter().map(|p| (p.scheduler, p.profile)).collect();
        Self {
            state,
            profiles,
            queue: Queue::default(),
            caches: ClassCaches::default(),
            bindings: Bindings::default(),
            outbox: VecDeque::new(),
            wake: WakeCursor::default(),
            leases: Leases::default(),
            late: BTreeSet::new(),
            search: None,
            preemptions: Preemptions::default(),
            report_lease: config.report_lease,
            retry_after: config.retry_after,
            reuse_evaluations: config.reuse_evaluations,
            evaluated_for: None,
            steps_per_poll: config.steps_per_poll.max(1),
            steps: 0,
            decisions: 0,
            #[cfg(feature = "planted-bugs")]
            forgets_failures: false,
        }
    }

    /// Plants a fault: a pod whose bind failed is not tried again.
    #[cfg(feature = "planted-bugs")]
    pub fn forget_failures(&mut self) {
        self.forgets_failures = true;
    }

    /// Takes note of a fact.
    pub fn handle(&mut self, now: Timestamp, event: Event) {
        self.take_event(now, event);
        self.requeue_reclassified();
        self.outbox.extend(self.state.take_notices().into_iter().map(Action::Report));
        let dead = self.state.take_dead_classes();
        self.caches.forget(&dead);
    }

    /// Decides, within the step budget of one poll. A step is one class evaluated on one node, or one pod
    /// tried: `O(steps)`, and `O(nodes)` to pick the best of what is evaluated.
    pub fn poll(&mut self, now: Timestamp) -> Step {
        self.steps = self.steps_per_poll;
        self.expire_leases(now);
        self.end_waits(now);
        self.turn(now);
        self.queue.end_waits(now);
        loop {
            if let Some(action) = self.outbox.pop_front() {
                return Step::Act(action);
            }
            let news = self.state.take_notices();
            if !news.is_empty() {
                self.outbox.extend(news.into_iter().map(Action::Report));
                continue;
            }
            // Whoever can gain from what changed is made ready first, so that priority decides who gets it.
            if !self.wake_pods() {
                return Step::Busy;
            }
            let Some(pod) = self.queue.head() else {
                // Somebody gave a place up meanwhile. It ends: nobody gets one by this.
                if self.bindings.turnstile.is_stirred() {
                    self.turn(now);
                    continue;
                }
                return Step::Rest;
            };
            if self.try_gang(now, pod) {
                continue;
            }
            if !self.schedule(now, pod) {
                return Step::Busy;
            }
        }
    }

    /// When to poll again if nothing happens before: the end of a backoff, of a wait for
    /// permission, of a report's lease, or of the time after which parked pods look again.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        [self.queue.next_wait(), self.bindings.next_deadline(), self.leases.next()].into_iter().flatten().min()
    }

    /// The cluster as the engine knows it, assumed placements included.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Turns [`Config::reuse_evaluations`] on or off.
    pub fn set_reuse_evaluations(&mut self, reuse: bool) {
        self.reuse_evaluations = reuse;
    }

    /// How many pods were tried so far.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    fn profile_of(&self, pod: PodId) -> Option<&Profile> {
        profile_for(&self.profiles, self.state.class(self.state.pod(pod)?.class))
    }

    /// Where a pod is placed.
    fn node_of(&self, pod: PodId) -> Option<NodeId> {
        self.state.pod(pod)?.placed.as_ref().map(|p| p.node)
    }

    fn scheduler_of(&self, pod: PodId) -> Option<String> {
        let class = self.state.class(self.state.pod(pod)?.class);
        self.profiles.get(usize::from(class.spec.profile?)).map(|(name, _)| name.clone())
    }

    fn profile_index(&self, scheduler: &str) -> Option<u8> {
        self.profiles.iter().position(|(name, _)| name == scheduler).and_then(|at| u8::try_from(at).ok())
    }

    /// Spends one step; false if none is left.
    fn spend(&mut self) -> bool {
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                true
            }
            None => false,
        }
    }
}

/// The profile that schedules a class; `None` for pods of other schedulers.
fn profile_for<'a>(profiles: &'a [(String, Profile)], class: &Class) -> Option<&'a Profile> {
    class.spec.profile.and_then(|p| profiles.get(usize::from(p))).map(|(_, profile)| profile)
}
