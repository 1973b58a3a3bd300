//! Watches a cluster while a test runs, and says what must never happen: a card over its capacity, two pods on one whole card, a
//! pod bound twice, a pod that neither is bound nor says why it waits.
//!
//! It knows nothing of the scheduler's code: what it checks it reads from the API server alone, by a watch while the test
//! runs and by a list at its end.

mod book;
mod record;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::control_plane::wait::PATIENCE;
use crate::objects::{node_of, waiting};
use book::version;

pub(crate) use book::Book;
pub use violation::Violation;

/// What the checker allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Scheduler name of the pods that are checked.
    pub scheduler: String,
    /// Memory of each card, MiB.
    pub card_memory: u64,
    /// For how long a card may be over its capacity, or held by two pods of which one holds it whole. Zero but for a test
    /// that thaws a deposed leader.
    pub tolerance: Duration,
    /// How long a pod may take, once the test is over, to be bound or to say why it waits.
    pub patience: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            scheduler: "gpu-scheduler".to_owned(),
            card_memory: 81920,
            tolerance: Duration::ZERO,
            patience: PATIENCE,
        }
    }
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
    pub violations: Vec<Violation>,
}

impl Checker {
    /// Starts to watch all pods.
    pub fn start(client: Client, rules: Rules) -> Self {
        let (book, news) = (Arc::new(Mutex::new(Book::new(rules.clone()))), Arc::new(Notify::new()));
        let task = tokio::spawn(follow(client.clone(), book.clone(), news.clone()));
        Self { rules, client, book, news, task }
    }

    /// Everything up to now, to be asked once a fault has ended. Waits until every pod is bound or says why not, for as long
    /// as the rules allow, and until the checker's own watch has caught up.
    ///
    /// # Panics
    /// If the API server cannot be asked, or the watch does not catch up.
    pub async fn verdict(&self) -> Verdict {
        let pods = Api::<Pod>::all(self.client.clone());
        let deadline = Instant::now() + self.rules.patience;
        loop {
            let listed = pods.list(&ListParams::default()).await.expect("the API server lists pods").items;
            let newest = listed.iter().map(version).max().unwrap_or(0);
            let caught_up = self.seen(|book| book.version() >= newest);
            timeout(PATIENCE, caught_up).await.expect("the checker's watch follows");
            let settled = !listed.iter().any(|pod| self.rules.is_unsettled(pod)) && self.book().at_rest();
            if settled || Instant::now() >= deadline {
                return self.judge(&listed);
            }
            // When this takes too long, the next round finds it.
            let _ = timeout_at(deadline, self.seen(Book::at_rest)).await;
        }
    }

    fn judge(&self, listed: &[Pod]) -> Verdict {
        let now = Instant::now();
        let mut book = self.book();
        let ours = || listed.iter().filter(|pod| self.rules.ours(pod));
        for pod in ours().filter(|pod| self.rules.is_unsettled(pod)) {
            book.note(Violation::Unsettled { pod: pod.name_any() });
        }
        let mut violations = book.violations(now);
        // Once more by what there is now alone, whatever the watch may have missed.
        let mut fresh = Book::new(self.rules.clone());
        fresh.take(now, watcher::Event::Init);
        for pod in listed {
            fresh.take(now, watcher::Event::InitApply(pod.clone()));
        }
        fresh.take(now, watcher::Event::InitDone);
        violations.extend(fresh.violations(now));
        let unbound = ours().filter(|pod| node_of(pod).is_none());
        Verdict {
            bound: book.bound(),
            waiting: unbound.map(|pod| (pod.name_any(), reason(pod).unwrap_or_default())).collect(),
            violations: violations.into_iter().collect(),
        }
    }

    /// Returns when the book is so.
    async fn seen(&self, so: impl Fn(&Book) -> bool) {
        loop {
            let next = self.news.notified();
            if so(&self.book()) {
                return;
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

async fn follow(client: Client, book: Arc<Mutex<Book>>, news: Arc<Notify>) {
    let mut events = Box::pin(watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff());
    loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                book.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now(), event);
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

    /// Whether a pod of ours neither is bound nor says why it waits. One that is on its way out need not.
    pub(crate) fn is_unsettled(&self, pod: &Pod) -> bool {
        let is_over = finished(pod) || pod.metadata.deletion_timestamp.is_some();
        self.ours(pod) && !is_over && node_of(pod).is_none() && reason(pod).is_none()
    }
}

fn finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Why a pod waits: what its condition says, that its gates are shut, or that room is made for it.
fn reason(pod: &Pod) -> Option<String> {
    let gated = || pod.spec.as_ref()?.scheduling_gates.as_ref().filter(|gates| !gates.is_empty());
    let nominated = || pod.status.as_ref()?.nominated_node_name.as_ref();
    waiting(pod)
        .filter(|message| !message.is_empty())
        .or_else(|| gated().map(|gates| format!("{} scheduling gates are shut", gates.len())))
        .or_else(|| nominated().map(|node| format!("room is made on {node}")))
}
