//! What is told rather than decided: conditions and events of pods. It trails behind binds, keeps only the newest
//! condition of a pod, and never says of a pod that it waits once its bind is out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpu_scheduler_engine::Condition;
use gpu_scheduler_engine::model::{PodName, PodUid};
use http::{Method, StatusCode};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::event::{Event, EventDraft, Events};
use super::right_of_way::RightOfWay;
use super::writer::{NoAnswer, Writer, path, says_nothing};
use crate::metrics::{Metrics, WriteKind, WriteResult};

/// Writers that tell at the same time.
const TELLERS: usize = 4;

/// Pause of a writer after something was not taken.
const AGAIN: Duration = Duration::from_millis(500);
const MERGE: &str = "application/strategic-merge-patch+json";

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It was taken.
    Done,
    /// There is nobody to tell.
    Gone,
    /// It was refused, and would be again.
    Refused,
    /// It was refused for now, or there was no answer.
    Unsure,
}

impl Told {
    fn of_status(code: StatusCode) -> Self {
        match code {
            code if code.is_success() => Self::Done,
            // The pod is gone, or another one has its name: there is nobody to tell.
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Self::Gone,
            // Credentials come anew.
            StatusCode::UNAUTHORIZED => Self::Unsure,
            code if code.is_client_error() && !says_nothing(code) => Self::Refused,
            _ => Self::Unsure,
        }
    }

    /// Whether nothing is left to be written.
    fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Gone)
    }
}

/// Who tells: `reportingController` and `reportingInstance` of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// Name of this process among the replicas.
    pub instance: String,
}

/// What is to be written on a waiting pod, in one write.
#[derive(Debug)]
struct Say {
    pod: PodName,
    /// Why it waits, with the scheduler name that it calls us by.
    condition: Option<(Condition, String)>,
    /// `status.nominatedNodeName`; an inner `None` takes it back.
    nomination: Option<Option<Arc<str>>>,
}

impl Say {
    /// What is newer counts; what it says nothing of stays to be said.
    fn overlay(&mut self, newer: Self) {
        if let Some((mut condition, profile)) = newer.condition {
            // What it had to say was never said: whether the pod says anything yet is as it was.
            if let Some((before, _)) = &self.condition {
                condition.again = before.again;
            }
            self.condition = Some((condition, profile));
        }
        if newer.nomination.is_some() {
            self.nomination = newer.nomination;
        }
    }
}

#[derive(Debug, Default)]
struct Desk {
    conditions: BTreeMap<PodUid, Say>,
    /// Pods of `conditions`, first come first served. May name pods that have nothing to say any more.
    order: VecDeque<PodUid>,
    events: Events,
    /// Events that are being written.
    telling: usize,
    /// Pods whose condition is being written.
    writing: BTreeMap<PodUid, Arc<Notify>>,
}

/// Tells, in the background.
#[derive(Clone)]
pub(super) struct Teller {
    desk: Arc<Mutex<Desk>>,
    work: Arc<Notify>,
    way: RightOfWay,
    writer: Writer,
    reporter: Reporter,
    metrics: Metrics,
}

impl Teller {
    /// Tells through `writer`, when `way` lets it.
    pub fn new(writer: Writer, way: RightOfWay, reporter: Reporter, metrics: Metrics) -> Self {
        Self { desk: Arc::default(), work: Arc::new(Notify::new()), way, writer, reporter, metrics }
    }

    fn desk(&self) -> std::sync::MutexGuard<'_, Desk> {
        // A panic elsewhere leaves nothing half done here: each entry is put or taken whole.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut desk = self.desk();
        match desk.conditions.get_mut(&uid) {
            Some(before) => before.overlay(say),
            None => {
                desk.order.push_back(uid.clone());
                desk.conditions.insert(uid, say);
            }
        }
        drop(desk);
        self.work.notify_one();
    }

    /// Something happened.
    pub fn event(&self, event: EventDraft) {
        self.desk().events.push(event, Timestamp::now());
        self.work.notify_one();
    }

    /// From now on nothing is said about a pod that waited: its bind goes out. Waits for what is being written.
    pub async fn hush(&self, uid: &PodUid) {
        loop {
            let writing = {
                let mut desk = self.desk();
                desk.conditions.remove(uid);
                desk.writing.get(uid).cloned()
            };
            let Some(written) = writing else { return };
            let done = written.notified();
            // It may have ended between the look and the wait.
            if !self.desk().writing.contains_key(uid) {
                return;
            }
            done.await;
        }
    }

    /// Whether nothing is left to tell.
    pub fn idle(&self) -> bool {
        let desk = self.desk();
        desk.conditions.is_empty() && desk.events.is_empty() && desk.telling == 0 && desk.writing.is_empty()
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
            let event = self.next_event();
            let Some(event) = event else {
                self.work.notified().await;
                continue;
            };
            let again = self.write_event(&event).await == Told::Unsure;
            {
                let mut desk = self.desk();
                desk.telling -= 1;
                if again {
                    desk.events.push_back(event);
                }
            }
            if again {
                sleep(AGAIN).await;
            }
        }
    }

    fn next_event(&self) -> Option<Event> {
        let mut desk = self.desk();
        let event = desk.events.pop()?;
        desk.telling += 1;
        if !desk.events.is_empty() {
            self.work.notify_one();
        }
        Some(event)
    }

    /// The end of a write. What was not taken is said again, unless there is something newer to say; whoever hushes the
    /// pod waits for this, and takes it back.
    fn written(&self, uid: PodUid, say: Say, told: Told) {
        let mut desk = self.desk();
        if !told.is_settled() {
            let mut again = say;
            match desk.conditions.remove(&uid) {
                Some(newer) => again.overlay(newer),
                None => desk.order.push_back(uid.clone()),
            }
            desk.conditions.insert(uid.clone(), again);
        }
        if let Some(written) = desk.writing.remove(&uid) {
            written.notify_waiters();
        }
    }

    fn next_condition(&self) -> Option<(PodUid, Say)> {
        let mut desk = self.desk();
        let mut passes = desk.order.len();
        while passes > 0 {
            passes -= 1;
            let uid = desk.order.pop_front()?;
            if desk.writing.contains_key(&uid) {
                // One at a time, or an older text might come last.
                desk.order.push_back(uid);
                continue;
            }
            let Some(say) = desk.conditions.remove(&uid) else { continue };
            desk.writing.insert(uid.clone(), Arc::new(Notify::new()));
            if !desk.order.is_empty() {
                self.work.notify_one();
            }
            return Some((uid, say));
        }
        None
    }

    async fn write_condition(&self, uid: &PodUid, say: &Say) -> Told {
        let mut status = json!({});
        if let Some((condition, _)) = &say.condition {
            status["conditions"] = json!([unscheduled(condition)]);
        }
        if let Some(node) = &say.nomination {
            status["nominatedNodeName"] = json!(node.as_deref());
        }
        // The UID is a precondition: a pod of the same name that came later says nothing yet.
        let patch = json!({"metadata": {"uid": &*uid.0}, "status": status});
        let status = format!("{}/status", path(&say.pod));
        let told = self.write(WriteKind::PodCondition, Method::PATCH, &status, MERGE, &patch).await;
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

    async fn write_event(&self, event: &Event) -> Told {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.namespace());
        let body = event.body(&self.reporter.instance);
        self.write(WriteKind::Event, Method::POST, &path, "application/json", &body).await
    }

    /// Marks a pod as being disrupted and deletes it, under its UID. One that may not be deleted is not marked any more.
    pub async fn evict(&self, uid: &PodUid, pod: &PodName, reason: &str, message: &str) -> Told {
        self.mark_disrupted(uid, pod, true, reason, message).await;
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": &*uid.0}});
        let told = self.write(WriteKind::Eviction, Method::DELETE, &path(pod), "application/json", &options).await;
        if told == Told::Refused {
            self.mark_disrupted(uid, pod, false, reason, "the API server refuses to delete it").await;
        }
        told
    }

    async fn mark_disrupted(&self, uid: &PodUid, pod: &PodName, is: bool, reason: &str, message: &str) {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": if is { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastTransitionTime": seconds_now(),
        });
        let patch = json!({"metadata": {"uid": &*uid.0}, "status": {"conditions": [condition]}});
        let status = format!("{}/status", path(pod));
        self.write(WriteKind::PodCondition, Method::PATCH, &status, MERGE, &patch).await;
    }

    async fn write(&self, kind: WriteKind, method: Method, path: &str, content: &str, body: &Value) -> Told {
        let result = self.writer.send(method, path, content, body).await;
        match result {
            Ok(answer) => {
                self.metrics.api_write(kind, WriteResult::of_status(answer.code.as_u16()));
                let told = Told::of_status(answer.code);
                if !told.is_settled() {
                    let why = answer.why();
                    warn!(kind = kind.as_str(), path, why, "the API server did not take what was to be told");
                }
                told
            }
            Err(NoAnswer::Deposed) => Told::Unsure,
            Err(error) => {
                self.metrics.api_write(kind, WriteResult::Failed);
                debug!(kind = kind.as_str(), path, %error, "no answer");
                Told::Unsure
            }
        }
    }
}

/// The condition `PodScheduled=False`.
fn unscheduled(condition: &Condition) -> Value {
    let mut json = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": condition.reason.to_string(),
        "message": &*condition.message,
    });
    if condition.generation > 0 {
        json["observedGeneration"] = json!(condition.generation);
    }
    if !condition.again {
        json["lastTransitionTime"] = json!(seconds_now());
    }
    json
}

fn seconds_now() -> String {
    format!("{:.0}", Timestamp::now())
}
