//! All pods of a bed, as the API server tells of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::answer::Decision;
use crate::control_plane::wait::PATIENCE;
use crate::objects::node_of;

/// A pod, and what was said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// `NAMESPACE/NAME`.
    pub key: String,
    /// Where it is.
    pub node: Option<String>,
    /// Why it waits: the first that was said. Later ones may be of a state that has moved on.
    pub waits: Option<Decision>,
    /// Where others make room for it.
    pub nominated: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is gone.
    pub gone: bool,
}

/// Pods by UID.
pub(super) type Pods = BTreeMap<String, Seen>;

/// A running watch of all pods.
pub(super) struct PodWatch {
    pods: Arc<Mutex<Pods>>,
    news: Arc<Notify>,
    task: JoinHandle<()>,
}

impl PodWatch {
    pub(super) fn start(client: Client) -> Self {
        let (pods, news) = (Arc::new(Mutex::new(Pods::new())), Arc::new(Notify::new()));
        let task = tokio::spawn(follow(client, pods.clone(), news.clone()));
        Self { pods, news, task }
    }

    /// Waits until `seen` finds in the pods what it looks for; nothing if it never does.
    pub(super) async fn until<T>(&self, seen: impl Fn(&Pods) -> Option<T>) -> Option<T> {
        let found = async {
            loop {
                let next = self.news.notified();
                if let Some(found) = seen(&lock(&self.pods)) {
                    return found;
                }
                next.await;
            }
        };
        timeout(PATIENCE, found).await.ok()
    }

    /// Forgets pods that are gone.
    pub(super) fn tidy(&self) {
        lock(&self.pods).retain(|_, pod| !pod.gone);
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(pods: &Mutex<Pods>) -> MutexGuard<'_, Pods> {
    // A panic elsewhere leaves nothing half done here.
    pods.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(client: Client, pods: Arc<Mutex<Pods>>, news: Arc<Notify>) {
    let mut events = Box::pin(watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                let mut pods = lock(&pods);
                let seen = pods.entry(pod.uid().unwrap_or_default()).or_insert_with(|| Seen {
                    key: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
                    node: None,
                    waits: None,
                    nominated: None,
                    deleting: false,
                    gone: false,
                });
                seen.node = node_of(&pod).map(str::to_owned);
                seen.nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
                seen.deleting = pod.metadata.deletion_timestamp.is_some();
                if seen.waits.is_none() {
                    seen.waits = says(&pod);
                }
            }
            Ok(watcher::Event::Delete(pod)) => {
                if let Some(seen) = lock(&pods).get_mut(&pod.uid().unwrap_or_default()) {
                    seen.gone = true;
                }
            }
            // The watch goes on by itself.
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        }
        news.notify_waiters();
    }
}

fn says(pod: &Pod) -> Option<Decision> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let message = condition.message.clone().unwrap_or_default();
    match condition.reason.as_deref() {
        Some("Unschedulable") => Some(Decision::Waits(message)),
        other => Some(Decision::Failed(format!("{}: {message}", other.unwrap_or_default()))),
    }
}
