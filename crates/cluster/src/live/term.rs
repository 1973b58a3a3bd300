//! One term of a leader: watches, driver, writes. It begins with nothing and leaves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_engine::model::{Millis, Timestamp};
use gpu_scheduler_engine::{Cause, Part, Preemptions};
use kube::Client;
use tokio::sync::{mpsc, watch as signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::clock::Clock;
use super::fence::Fence;
use super::right_of_way::RightOfWay;
use super::spans::{self, Spans};
use super::teller::{Reporter, Teller, seconds_now};
use super::watch::{CHANNEL, watch};
use super::writer::Writer;
use crate::driver::{
    Around, BindAnswer, BindOrder, Driver, Effect, Input, ReadAnswer, Turn, VolumeAnswer, VolumeWrite,
};
use crate::exchange::{EventDraft, Evicting, Eviction, EvictionEnd, EvictionStep};
use crate::metrics::{AttemptResult, BindResult, Metrics, PendingPods, Watched, WriteKind, WriteResult, per_model};
use crate::objects;
use crate::problem::Problem;
use crate::serve::Health;

/// Turns of the driver between two looks at what came in.
const TURNS: usize = 256;
/// Inputs taken in one go.
const INPUTS: usize = 1024;
/// How often sums over the whole cluster are made for metrics.
const SUMS: Duration = Duration::from_secs(5);
/// How long binds on their way, and what is to be told, may take once the process is asked to end.
const DRAIN: Duration = Duration::from_secs(10);

/// A question to the engine.
#[derive(Debug)]
pub struct Question {
    /// Namespace of the pod.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where the answer goes: JSON, or nothing where the pod is not known.
    pub answer: tokio::sync::oneshot::Sender<Option<String>>,
}

/// What a term works with.
pub(super) struct Term<'a> {
    pub client: Client,
    pub writes: Client,
    pub fence: Fence,
    pub reporter: Reporter,
    pub metrics: Metrics,
    pub health: Health,
    pub questions: &'a mut mpsc::Receiver<Question>,
    pub shutdown: signal::Receiver<bool>,
}

impl Term<'_> {
    /// Schedules until the process is asked to end; dropped in the middle when leadership is lost.
    pub async fn run(self, driver: Driver) {
        let (inputs, mut incoming) = mpsc::channel(CHANNEL);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch::<objects::Node>(self.client.clone(), Input::Nodes, inputs.clone(), self.metrics.clone()));
        tasks.spawn(watch::<objects::Pod>(self.client.clone(), Input::Pods, inputs.clone(), self.metrics.clone()));
        tasks.spawn(watch::<objects::GpuNodeState>(
            self.client.clone(),
            Input::Reports,
            inputs.clone(),
            self.metrics.clone(),
        ));
        watch_around(&mut tasks, &self.client, &inputs, &self.metrics);
        drop(inputs);
        let writer = Writer::new(self.writes, self.fence);
        let way = RightOfWay::default();
        let teller = Teller::new(writer.clone(), way.clone(), self.reporter, self.metrics.clone());
        tasks.spawn(teller.clone().run());
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut desk = Desk {
            driver,
            clock: Clock::default(),
            writer,
            way,
            teller,
            metrics: self.metrics,
            health: self.health,
            answers,
            tasks,
            attempt: None,
            spans: Spans::default(),
            sums_due: Instant::now(),
            evictions: Arc::new(()),
            moves_told: BTreeMap::new(),
            preemptions_told: Preemptions::default(),
        };
        let mut shutdown = self.shutdown;
        let mut ends: Option<Instant> = None;
        loop {
            let turn = desk.work();
            desk.look_around();
            if let Some(ends) = ends
                && (desk.at_rest() || Instant::now() >= ends)
            {
                info!(unfinished_binds = desk.driver.binds_in_flight(), "drained");
                return;
            }
            // Work left: look at what came in, without waiting for it.
            let pause = if turn == Turn::Rest { desk.pause() } else { Duration::ZERO };
            let pause = if ends.is_some() { pause.min(Duration::from_millis(20)) } else { pause };
            tokio::select! {
                biased;
                Some(input) = answered.recv() => {
                    desk.take(input);
                    while let Ok(input) = answered.try_recv() {
                        desk.take(input);
                    }
                }
                Some(input) = incoming.recv() => {
                    desk.take(input);
                    for _ in 0..INPUTS {
                        let Ok(input) = incoming.try_recv() else { break };
                        desk.take(input);
                    }
                }
                Some(question) = self.questions.recv() => {
                    let json = desk.driver.explain(&question.namespace, &question.name).map(|v| v.to_string());
                    // Whoever asked may have gone away.
                    let _ = question.answer.send(json);
                }
                result = shutdown.wait_for(|down| *down), if ends.is_none() => {
                    drop(result);
                    info!("asked to end: binds on their way are finished first");
                    desk.driver.drain();
                    ends = Some(Instant::now() + DRAIN);
                }
                () = rest(pause) => {}
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Watches the kinds that say something about pods and nodes.
fn watch_around(tasks: &mut JoinSet<()>, client: &Client, inputs: &mpsc::Sender<Input>, metrics: &Metrics) {
    macro_rules! watch {
        ($($kind:ident as $input:ident),*) => {$(
            let wrap = |change| Input::Around(Around::$input(change));
            tasks.spawn(watch::<objects::$kind>(client.clone(), wrap, inputs.clone(), metrics.clone()));
        )*};
    }
    watch!(
        Namespace as Namespaces,
        Service as Services,
        ReplicationController as ReplicationControllers,
        ReplicaSet as ReplicaSets,
        StatefulSet as StatefulSets,
        PodDisruptionBudget as DisruptionBudgets,
        PodGroup as PodGroups,
        PersistentVolumeClaim as Claims,
        PersistentVolume as Volumes,
        StorageClass as StorageClasses,
        CsiNode as CsiNodes,
        CsiDriver as CsiDrivers,
        CsiStorageCapacity as Capacities,
        VolumeAttachment as Attachments
    );
}

/// The loop's own things.
struct Desk {
    /// Everything that runs beside the loop. The first to be dropped: nothing of a term acts while the rest ends.
    tasks: JoinSet<()>,
    driver: Driver,
    clock: Clock,
    writer: Writer,
    way: RightOfWay,
    teller: Teller,
    metrics: Metrics,
    health: Health,
    answers: mpsc::UnboundedSender<Input>,
    /// When the present attempt at a pod began.
    attempt: Option<Instant>,
    spans: Spans,
    sums_due: Instant,
    /// One clone for each eviction under way.
    evictions: Arc<()>,
    /// Moves within the queue that metrics know of.
    moves_told: BTreeMap<(Part, Cause), u64>,
    /// Preemptions that metrics know of.
    preemptions_told: Preemptions,
}

impl Desk {
    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        let was_synced = self.driver.synced();
        self.driver.handle(now, input);
        if !was_synced && self.driver.synced() {
            let state = self.driver.engine().state();
            info!(nodes = state.live_nodes().count(), pods = state.pods().count(), "all watches have synced");
            self.health.set_synced(true);
        }
    }

    /// Some turns of the driver. Says `Rest` if it came to rest.
    fn work(&mut self) -> Turn {
        for _ in 0..TURNS {
            let now = self.clock.now();
            let began = *self.attempt.get_or_insert_with(Instant::now);
            self.spans.begin();
            match self.driver.poll(now) {
                Turn::Rest => {
                    self.attempt = None;
                    self.spans.rest(|ticket| self.driver.is_on_its_way(ticket));
                    return Turn::Rest;
                }
                Turn::Busy => return Turn::Busy,
                Turn::Do(effect) => {
                    self.attempt = None;
                    self.carry_out(effect, began.elapsed());
                    self.spans.nothing();
                }
            }
        }
        Turn::Busy
    }

    fn carry_out(&mut self, effect: Effect, took: Duration) {
        match effect {
            Effect::Bind(order) => {
                self.metrics.attempt(&order.profile, AttemptResult::Scheduled, took);
                self.metrics.decision(took);
                self.send_bind(order);
            }
            Effect::ReadBack(order) => {
                let (writer, answers) = (self.writer.clone(), self.answers.clone());
                let span = self.spans.read_back(&order);
                self.tasks.spawn(async move {
                    let answer = writer.read_back(&order.pod, &order.uid).await;
                    spans::found(&span, &answer);
                    if let ReadAnswer::Unknown(why) = &answer {
                        warn!(pod = %order.pod, why, "cannot read back where a pod is; asks again");
                    }
                    drop(span);
                    // The loop has ended if nobody listens.
                    let _ = answers.send(Input::ReadBack { ticket: order.ticket, answer });
                });
            }
            Effect::WriteVolume(order) => self.write_volume(order),
            Effect::ReadVolume(order) => {
                let (writer, answers) = (self.writer.clone(), self.answers.clone());
                self.tasks.spawn(async move {
                    let answer = writer.read_volume(&order).await;
                    let _ = answers.send(Input::VolumeReadBack { ticket: order.ticket, index: order.index, answer });
                });
            }
            Effect::Announce(bound) => self.announce(bound),
            Effect::Say { uid, pod, condition, profile } => {
                let result = match condition.reason {
                    gpu_scheduler_engine::ConditionReason::Unschedulable => AttemptResult::Unschedulable,
                    gpu_scheduler_engine::ConditionReason::SchedulerError => AttemptResult::Error,
                };
                self.metrics.attempt(&profile, result, took);
                let attempts = self.driver.engine().attempted(&uid).map(|attempted| attempted.attempts);
                self.spans.waits(&uid, &pod, &profile, attempts, result, &condition.message);
                self.teller.say(uid, pod, condition, profile);
            }
            Effect::Evict { uid, pod, node, reason, message, preemptor } => {
                warn!(%pod, %node, %reason, message, "evicts a pod");
                self.evict(Eviction { uid, pod, node, reason, message, preemptor });
            }
            Effect::Nominate { uid, pod, node } => self.teller.nominate(uid, pod, node),
            Effect::Report(notice) => warn!("{notice}"),
            Effect::Problem(problem) => {
                self.metrics.malformed(problem_kind(&problem));
                warn!("{problem}");
            }
        }
    }

    fn send_bind(&mut self, order: BindOrder) {
        let (writer, teller, answers) = (self.writer.clone(), self.teller.clone(), self.answers.clone());
        let metrics = self.metrics.clone();
        let span = self.spans.bind(&order);
        let passing = self.way.bind();
        self.tasks.spawn(async move {
            teller.hush(&order.uid).await;
            let answer = writer.bind(&order).await;
            spans::answered(&span, &answer);
            let (result, written) = match &answer {
                BindAnswer::Done => (BindResult::Bound, Some(WriteResult::Ok)),
                BindAnswer::Refused(_) => (BindResult::Refused, Some(WriteResult::Refused)),
                BindAnswer::Conflict(_) => (BindResult::Refused, Some(WriteResult::Conflict)),
                BindAnswer::Unknown(_) => (BindResult::Failed, Some(WriteResult::Failed)),
                BindAnswer::Deposed => (BindResult::Fenced, None),
            };
            metrics.bind_finished(result);
            if let Some(written) = written {
                metrics.api_write(WriteKind::Binding, written);
            }
            match &answer {
                BindAnswer::Done | BindAnswer::Deposed => {}
                BindAnswer::Refused(why) | BindAnswer::Conflict(why) => {
                    warn!(pod = %order.pod, node = %order.node, why, "a bind was refused")
                }
                BindAnswer::Unknown(why) => {
                    warn!(pod = %order.pod, node = %order.node, why, "the answer to a bind is lost; reads it back");
                }
            }
            drop(passing);
            // Before the loop knows, so that a request never ends after its attempt.
            drop(span);
            let _ = answers.send(Input::BindAnswered { ticket: order.ticket, answer });
        });
    }

    fn write_volume(&mut self, order: VolumeWrite) {
        let (writer, answers, metrics) = (self.writer.clone(), self.answers.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            let answer = writer.write_volume(&order).await;
            let written = match &answer {
                VolumeAnswer::Done => Some(WriteResult::Ok),
                VolumeAnswer::Refused(_) => Some(WriteResult::Refused),
                VolumeAnswer::Conflict(_) => Some(WriteResult::Conflict),
                VolumeAnswer::Unknown(_) => Some(WriteResult::Failed),
                VolumeAnswer::Deposed => None,
            };
            if let Some(written) = written {
                metrics.api_write(WriteKind::Volume, written);
            }
            if let VolumeAnswer::Refused(why) | VolumeAnswer::Conflict(why) | VolumeAnswer::Unknown(why) = &answer {
                warn!(what = ?order.what, why, "a write that binds a volume did not simply succeed");
            }
            // The loop has ended if nobody listens.
            let _ = answers.send(Input::VolumeAnswered { ticket: order.ticket, index: order.index, answer });
        });
    }

    fn announce(&mut self, bound: BindOrder) {
        let now = self.clock.now();
        self.spans.bound(bound.ticket);
        self.metrics.bound(bound.attempts, since(bound.created_at, now));
        self.teller.event(EventDraft {
            note: format!("Successfully assigned {} to {}", bound.pod, bound.node),
            uid: bound.uid,
            pod: bound.pod,
            warning: false,
            reason: "Scheduled".to_owned(),
            action: "Binding",
            related: None,
            profile: bound.profile,
        });
    }

    fn evict(&mut self, eviction: Eviction) {
        let teller = self.teller.clone();
        let (open, answers) = (self.evictions.clone(), self.answers.clone());
        self.tasks.spawn(async move {
            let (mut evicting, mut told) = (Evicting::new(eviction), None);
            let end = loop {
                match evicting.next(told.take(), &seconds_now()) {
                    EvictionStep::Send { deletes, call } => {
                        let kind = if deletes { WriteKind::Eviction } else { WriteKind::PodCondition };
                        told = Some(teller.write(kind, &call).await);
                    }
                    EvictionStep::Pause(pause) => sleep(pause).await,
                    EvictionStep::End(end) => break end,
                }
            };
            match end {
                EvictionEnd::Goes(eviction) => teller.event(eviction.into()),
                EvictionEnd::Stays { uid, preemptor } => {
                    drop(answers.send(Input::EvictionRefused { uid, preemptor }));
                }
            }
            drop(open);
        });
    }

    /// What is looked at now and then.
    fn look_around(&mut self) {
        self.health.beat();
        while let Some(ended) = self.tasks.try_join_next() {
            // A watch or a writer that died would leave the loop blind or dumb: the process ends and starts anew.
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.metrics.binds_in_flight(self.driver.binds_in_flight());
        if Instant::now() < self.sums_due {
            return;
        }
        self.sums_due = Instant::now() + SUMS;
        let engine = self.driver.engine();
        let pending = engine.pending();
        self.metrics.pending(PendingPods {
            active: pending.active,
            backoff: pending.backoff,
            unschedulable: pending.unschedulable,
            gated: pending.gated,
        });
        for (key, count) in engine.queue_moves() {
            let told = self.moves_told.get(key).copied().unwrap_or(0);
            self.metrics.queue_incoming(key.0.into(), key.1.into(), count.saturating_sub(told));
        }
        self.moves_told = engine.queue_moves().iter().copied().collect();
        let preemptions = engine.preemptions();
        self.metrics.preemption_attempts(preemptions.attempts.saturating_sub(self.preemptions_told.attempts));
        for (victims, count) in &preemptions.victims {
            let told = self.preemptions_told.victims.get(victims).copied().unwrap_or(0);
            self.metrics.preempted(*victims, count.saturating_sub(told));
        }
        self.preemptions_told = preemptions.clone();
        self.metrics.cards(per_model(engine.state()));
        let (nodes, pods) = (engine.state().live_nodes().count(), engine.state().pods().count());
        self.metrics.cache_size(nodes, pods, pending.in_flight);
    }

    /// How long nothing needs to be done.
    fn pause(&mut self) -> Duration {
        let now = self.clock.now();
        let wakeup = self.driver.next_wakeup().map_or(SUMS, |at| since(now, at));
        wakeup.min(self.sums_due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
    }

    /// Whether nothing is on its way.
    fn at_rest(&self) -> bool {
        self.driver.binds_in_flight() == 0 && self.teller.idle() && Arc::strong_count(&self.evictions) == 1
    }
}

/// A sleep that takes no time when there is none to wait.
async fn rest(pause: Duration) {
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

/// The watch that a problem's object came by.
fn problem_kind(problem: &Problem) -> Watched {
    let kind = problem.origin.identity.as_ref().map(|i| i.kind.as_str()).unwrap_or_default();
    // Resource names are the kinds' in lower case, and many of them.
    let plural = format!("{}s", kind.to_lowercase());
    Watched::ALL.iter().copied().find(|watched| watched.as_str() == plural).unwrap_or(Watched::Pods)
}

fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    let Millis(millis) = Millis(later.0.saturating_sub(earlier.0));
    Duration::from_millis(millis)
}
