//! What is told rather than decided: conditions and events of pods. It trails behind binds, keeps only the newest
//! condition of a pod, and never says of a pod that it waits once its bind is out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpu_scheduler_engine::Condition;
use gpu_scheduler_engine::model::{PodName, PodUid};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::right_of_way::RightOfWay;
use super::writer::Writer;
use crate::exchange::{Call, Desk, Event, EventDraft, Events, NoAnswer, Say, Told};
use crate::metrics::{Metrics, WriteKind, WriteResult};

/// Writers that tell at the same time.
pub const TELLERS: usize = 4;

/// Pause of a writer after something was not taken.
pub const AGAIN: Duration = Duration::from_millis(500);

/// Who tells: `reportingController` and `reportingInstance` of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// Name of this process among the replicas.
    pub instance: String,
}

/// What is to be told, and who waits until a write has ended.
#[derive(Debug, Default)]
struct Outgoing {
    desk: Desk,
    events: Events,
    /// Events that are being written.
    telling: usize,
    /// By pod whose condition is being written.
    writing: BTreeMap<PodUid, Arc<Notify>>,
}

/// Tells, in the background.
#[derive(Clone)]
pub(super) struct Teller {
    outgoing: Arc<Mutex<Outgoing>>,
    work: Arc<Notify>,
    way: RightOfWay,
    writer: Writer,
    reporter: Reporter,
    metrics: Metrics,
}

impl Teller {
    /// Tells through `writer`, when `way` lets it.
    pub fn new(writer: Writer, way: RightOfWay, reporter: Reporter, metrics: Metrics) -> Self {
        Self { outgoing: Arc::default(), work: Arc::new(Notify::new()), way, writer, reporter, metrics }
    }

    fn outgoing(&self) -> std::sync::MutexGuard<'_, Outgoing> {
        // A panic elsewhere leaves nothing half done here: each entry is put or taken whole.
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod waits, and why.
    pub fn say(&self, uid: PodUid, pod: PodName, condition: Condition, profile: String) {
        self.put(uid, Say { pod, condition: Some((condition, profile)), nomination: None });
    }

    /// Room is made for a waiting pod on this node, or on none any more.
    pub fn nominate(&self, uid: PodUid, pod: PodName, node: Option<Arc<str>>) {
        self.put(uid, Say { pod, condition: None, nomination: Some(node) });
    }

    fn put(&self, uid: PodUid, say: Say) {
        self.outgoing().desk.put(uid, say);
        self.work.notify_one();
    }

    /// Something happened.
    pub fn event(&self, event: EventDraft) {
        self.outgoing().events.push(event, Timestamp::now());
        self.work.notify_one();
    }

    /// From now on nothing is said about a pod that waited: its bind goes out. Waits for what is being written.
    pub async fn hush(&self, uid: &PodUid) {
        loop {
            let written = {
                let mut outgoing = self.outgoing();
                if outgoing.desk.hush(uid) {
                    return;
                }
                let Some(writing) = outgoing.writing.get(uid) else { return };
                // Made while nobody can end the write: it hears of it, whatever comes between.
                Arc::clone(writing).notified_owned()
            };
            written.await;
        }
    }

    /// Whether nothing is left to tell.
    pub fn idle(&self) -> bool {
        let outgoing = self.outgoing();
        outgoing.desk.idle() && outgoing.events.is_empty() && outgoing.telling == 0
    }

    /// Tells until it is dropped.
    pub async fn run(self) {
        let tellers = (0..TELLERS).map(|_| self.clone().tell());
        futures::future::join_all(tellers).await;
    }

    async fn tell(self) {
        loop {
            self.way.give().await;
            if let Some((uid, say)) = self.next_condition() {
                let told = self.write_condition(&uid, &say).await;
                self.written(uid, say, told);
                if !told.is_settled() {
                    sleep(AGAIN).await;
                }
                continue;
            }
            let Some(event) = self.next_event() else {
                self.work.notified().await;
                continue;
            };
            let again = self.write(WriteKind::Event, &event.call(&self.reporter.instance)).await == Told::Unsure;
            let lost = {
                let mut outgoing = self.outgoing();
                outgoing.telling -= 1;
                again && !outgoing.events.push_back(event)
            };
            if lost {
                warn!("an event about a pod was not taken however often it was written, and is given up");
            }
            if again {
                sleep(AGAIN).await;
            }
        }
    }

    fn next_event(&self) -> Option<Event> {
        let mut outgoing = self.outgoing();
        let event = outgoing.events.pop()?;
        outgoing.telling += 1;
        if !outgoing.events.is_empty() {
            self.work.notify_one();
        }
        Some(event)
    }

    /// The end of a write. Whoever hushes the pod waits for this, and takes back what is to be said again.
    fn written(&self, uid: PodUid, say: Say, told: Told) {
        let mut outgoing = self.outgoing();
        if let Some(written) = outgoing.writing.remove(&uid) {
            written.notify_waiters();
        }
        outgoing.desk.written(uid, say, told);
    }

    fn next_condition(&self) -> Option<(PodUid, Say)> {
        let mut outgoing = self.outgoing();
        let (uid, say) = outgoing.desk.take_next()?;
        outgoing.writing.insert(uid.clone(), Arc::new(Notify::new()));
        if outgoing.desk.has_more() {
            self.work.notify_one();
        }
        Some((uid, say))
    }

    async fn write_condition(&self, uid: &PodUid, say: &Say) -> Told {
        let told = self.write(WriteKind::PodCondition, &say.call(uid, &seconds_now())).await;
        let (Told::Done, Some((condition, profile))) = (told, &say.condition) else { return told };
        self.event(EventDraft {
            uid: uid.clone(),
            pod: say.pod.clone(),
            warning: true,
            reason: "FailedScheduling".to_owned(),
            action: "Scheduling",
            note: condition.message.to_string(),
            related: None,
            profile: profile.clone(),
        });
        told
    }

    /// Sends a write that tells something.
    pub async fn write(&self, kind: WriteKind, call: &Call) -> Told {
        let answer = self.writer.send(call).await;
        let told = Told::of(&answer);
        match answer {
            Ok(answer) => {
                self.metrics.api_write(kind, WriteResult::of_status(answer.code.as_u16()));
                if !told.is_settled() {
                    let (path, why) = (&call.path, answer.why());
                    warn!(kind = kind.as_str(), path, why, "the API server did not take what was to be told");
                }
            }
            Err(NoAnswer::Deposed) => {}
            Err(error) => {
                self.metrics.api_write(kind, WriteResult::Failed);
                debug!(kind = kind.as_str(), path = call.path, %error, "no answer");
            }
        }
        told
    }
}

/// The time, as conditions have it.
pub(super) fn seconds_now() -> String {
    format!("{:.0}", Timestamp::now())
}
