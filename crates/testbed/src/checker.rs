//! Watches a cluster while a test runs, and says what must never happen: a card over its capacity, a pod on two
//! nodes, a record without a node, a pod that neither runs nor says why.
//!
//! It knows nothing of the scheduler's code: what it checks it reads from the API server alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::control_plane::wait::PATIENCE;
use crate::deploy::RECORD;

/// What the checker allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Scheduler name of the pods that are checked.
    pub scheduler: String,
    /// Memory of each card, MiB.
    pub card_memory: u64,
    /// For how long a card may be over its capacity. Zero but for a test that thaws a deposed leader.
    pub tolerance: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { scheduler: "gpu-scheduler".to_owned(), card_memory: 81920, tolerance: Duration::ZERO }
    }
}

/// What a pod holds of one card.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hold {
    uuid: String,
    whole: bool,
    memory: u64,
    compute: u64,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    version: String,
    node: Option<String>,
    holds: Vec<Hold>,
}

#[derive(Debug, Default)]
struct Book {
    pods: BTreeMap<String, Known>,
    /// Cards over their capacity, and since when.
    over: BTreeMap<String, Instant>,
    violations: BTreeSet<String>,
    /// Pods that were ever seen bound.
    bound: BTreeSet<String>,
}

/// A running checker.
pub struct Checker {
    rules: Rules,
    client: Client,
    book: Arc<Mutex<Book>>,
    news: Arc<Notify>,
    task: JoinHandle<()>,
}

/// What a checker saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Pods of ours that were bound at some time.
    pub bound: usize,
    /// Pods of ours that are waiting now, with their reasons.
    pub waiting: BTreeMap<String, String>,
    /// What must not have happened.
    pub violations: Vec<String>,
}

impl Checker {
    /// Starts to watch all pods.
    pub fn start(client: Client, rules: Rules) -> Self {
        let (book, news) = (Arc::new(Mutex::new(Book::default())), Arc::new(Notify::new()));
        let task = tokio::spawn(follow(client.clone(), rules.clone(), book.clone(), news.clone()));
        Self { rules, client, book, news, task }
    }

    /// Everything up to now. Waits until the checker's own watch has caught up.
    ///
    /// # Panics
    /// If the API server cannot be asked, or the watch does not catch up.
    pub async fn verdict(&self) -> Verdict {
        let pods = Api::<Pod>::all(self.client.clone());
        let listed = pods.list(&ListParams::default()).await.expect("the API server lists pods").items;
        timeout(PATIENCE, self.caught_up(&listed)).await.expect("the checker's watch follows");
        let mut verdict = Verdict::default();
        let mut book = self.book();
        let now = Instant::now();
        let over: Vec<_> = book.over.iter().map(|(uuid, since)| (uuid.clone(), now - *since)).collect();
        for (uuid, long) in over.into_iter().filter(|(_, long)| *long > self.rules.tolerance) {
            book.violations.insert(format!("card {uuid} is over its capacity, for {long:?} by now"));
        }
        verdict.bound = book.bound.len();
        for pod in listed.iter().filter(|p| self.rules.ours(p) && node_of(p).is_none()) {
            let reason = scheduled_false(pod);
            if reason.is_none() && pod.metadata.deletion_timestamp.is_none() {
                book.violations.insert(format!("pod {} neither is bound nor says why", pod.name_any()));
            }
            verdict.waiting.insert(pod.name_any(), reason.unwrap_or_default());
        }
        verdict.violations = book.violations.iter().cloned().collect();
        verdict
    }

    async fn caught_up(&self, listed: &[Pod]) {
        loop {
            let next = self.news.notified();
            {
                let book = self.book();
                let seen = |pod: &Pod| {
                    if finished(pod) {
                        return true; // it is not kept
                    }
                    let known = book.pods.get(&pod.uid().unwrap_or_default());
                    known.is_none_or(|k| version(&k.version) >= version(&pod.resource_version().unwrap_or_default()))
                        && (known.is_some() || !self.rules.ours(pod))
                };
                if listed.iter().all(seen) {
                    return;
                }
            }
            next.await;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Resource versions are numbers that grow (KEP-5504).
fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

async fn follow(client: Client, rules: Rules, book: Arc<Mutex<Book>>, news: Arc<Notify>) {
    let pods = Api::<Pod>::all(client);
    let mut events = Box::pin(watcher(pods, watcher::Config::default()).default_backoff());
    loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => book.saw(&rules, &pod),
                    watcher::Event::Delete(pod) => book.lost(&rules, &pod),
                    watcher::Event::Init | watcher::Event::InitDone => {}
                }
                drop(book);
                news.notify_waiters();
            }
            // The watch goes on by itself; the API server may be down on purpose.
            Err(_) => {}
            Ok(None) => return,
        }
    }
}

impl Rules {
    fn ours(&self, pod: &Pod) -> bool {
        pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()) == Some(self.scheduler.as_str())
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn scheduled_false(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some(condition.message.clone().unwrap_or_default())
}

/// The holds of a record, each container's; init containers run before and are left out where an app container
/// holds the same card.
fn holds_of(record: &str) -> Result<Vec<Hold>, String> {
    let value: Value = serde_json::from_str(record).map_err(|e| format!("{record} is no record: {e}"))?;
    let containers = value["containers"].as_array().ok_or_else(|| format!("{record} names no containers"))?;
    let mut holds = Vec::new();
    for container in containers {
        for device in container["devices"].as_array().into_iter().flatten() {
            holds.push(Hold {
                uuid: device["uuid"].as_str().ok_or("a device without a UUID")?.to_owned(),
                whole: container["kind"] == "whole",
                memory: device["memoryMiB"].as_u64().ok_or("a device without memory")?,
                compute: device["computePercent"].as_u64().ok_or("a device without compute")?,
            });
        }
    }
    Ok(holds)
}

impl Book {
    fn saw(&mut self, rules: &Rules, pod: &Pod) {
        if !rules.ours(pod) {
            return;
        }
        if finished(pod) {
            return self.lost(rules, pod);
        }
        let (uid, name) = (pod.uid().unwrap_or_default(), pod.name_any());
        let node = node_of(pod).map(ToOwned::to_owned);
        let record = pod.annotations().get(RECORD);
        if node.is_none() && record.is_some() {
            self.violations.insert(format!("pod {name} has a record and no node"));
        }
        let before = self.pods.get(&uid).and_then(|k| k.node.clone());
        if let (Some(before), Some(now)) = (&before, &node)
            && before != now
        {
            self.violations.insert(format!("pod {name} was on {before} and is on {now}"));
        }
        if before.is_some() && node.is_none() {
            self.violations.insert(format!("pod {name} was bound and is not any more"));
        }
        let holds = match record.map(|r| holds_of(r)) {
            Some(Ok(holds)) => holds,
            Some(Err(why)) => {
                self.violations.insert(format!("pod {name}: {why}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        if node.is_some() && holds.is_empty() && asks_gpu(pod) {
            self.violations.insert(format!("pod {name} is bound without a record of its cards"));
        }
        if node.is_some() {
            self.bound.insert(uid.clone());
        }
        let version = pod.resource_version().unwrap_or_default();
        self.pods.insert(uid, Known { name, version, node, holds });
        self.weigh(rules);
    }

    fn lost(&mut self, rules: &Rules, pod: &Pod) {
        self.pods.remove(&pod.uid().unwrap_or_default());
        self.weigh(rules);
    }

    /// Looks at every card.
    fn weigh(&mut self, rules: &Rules) {
        let mut cards: BTreeMap<&str, (u64, u64, usize, usize, Vec<&str>)> = BTreeMap::new();
        for pod in self.pods.values().filter(|p| p.node.is_some()) {
            for hold in &pod.holds {
                let card = cards.entry(&hold.uuid).or_default();
                card.0 += hold.memory;
                card.1 += hold.compute;
                card.2 += usize::from(hold.whole);
                card.3 += 1;
                card.4.push(&pod.name);
            }
        }
        let now = Instant::now();
        let over: BTreeMap<String, String> = cards
            .into_iter()
            .filter(|(_, (memory, compute, whole, holds, _))| {
                *memory > rules.card_memory || *compute > 100 || (*whole > 0 && *holds > 1)
            })
            .map(|(uuid, (memory, compute, _, _, names))| {
                (uuid.to_owned(), format!("card {uuid}: {memory} MiB, {compute} %, held by {}", names.join(", ")))
            })
            .collect();
        for (uuid, text) in &over {
            let since = *self.over.entry(uuid.clone()).or_insert(now);
            if rules.tolerance.is_zero() || now - since > rules.tolerance {
                self.violations.insert(text.clone());
            }
        }
        self.over.retain(|uuid, since| {
            let still = over.contains_key(uuid);
            if !still && now - *since > rules.tolerance {
                self.violations.insert(format!("card {uuid} was over its capacity for {:?}", now - *since));
            }
            still
        });
    }
}

fn asks_gpu(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    containers
        .filter_map(|c| c.resources.as_ref()?.limits.as_ref())
        .any(|limits| limits.keys().any(|k| k == "nvidia.com/gpu" || k == "gpu-scheduler/memory"))
}
