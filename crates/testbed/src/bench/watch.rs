//! An open watch of all pods, and what it has shown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, NotUsed, Object, ResourceExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::control_plane::ControlPlaneError;

/// How long all pods may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// A watch of the pods of the default namespace.
pub(super) struct Watch {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Pods that were seen, with the moment when they were seen with a node, and how many those are.
    pods: Mutex<(HashMap<String, Option<Instant>>, usize)>,
    news: Notify,
}

impl Watch {
    /// Begins.
    pub fn start(client: Client) -> Self {
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(follow(client, Arc::clone(&shared)));
        Self { shared, task }
    }

    /// Waits until so many pods were seen with a node.
    pub async fn bound(&self, count: usize) -> Result<(), ControlPlaneError> {
        self.until(|_, bound| bound >= count, || format!("{count} pods to be bound")).await
    }

    /// Waits until so many pods were seen.
    pub async fn seen(&self, count: usize) -> Result<(), ControlPlaneError> {
        self.until(|seen, _| seen >= count, || format!("{count} pods to be seen")).await
    }

    async fn until(
        &self,
        so: impl Fn(usize, usize) -> bool,
        what: impl Fn() -> String,
    ) -> Result<(), ControlPlaneError> {
        let wait = async {
            loop {
                let news = self.shared.news.notified();
                let (seen, bound) = self.shared.counts();
                if so(seen, bound) {
                    return;
                }
                news.await;
            }
        };
        timeout(PATIENCE, wait).await.map_err(|_| {
            let (seen, bound) = self.shared.counts();
            ControlPlaneError::Waited {
                what: what(),
                patience: PATIENCE,
                last: format!("; {seen} are seen, {bound} bound"),
            }
        })
    }

    /// From each moment to the sight of its pod's node, sorted; nothing where the node was seen first.
    pub fn latencies(&self, since: &HashMap<String, Instant>) -> Vec<Duration> {
        let pods = self.shared.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = |name: &String| pods.0.get(name).copied().flatten();
        let latencies = since.iter().filter_map(|(name, &at)| Some(bound(name)?.saturating_duration_since(at)));
        let mut latencies: Vec<Duration> = latencies.collect();
        latencies.sort_unstable();
        latencies
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn counts(&self) -> (usize, usize) {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        (pods.0.len(), pods.1)
    }
}

/// As much of a pod as is looked at: what the harness decodes takes time from those that it measures.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

async fn follow(client: Client, shared: Arc<Shared>) {
    let api = Api::<Object<Spec, NotUsed>>::namespaced_with(client, "default", &ApiResource::erase::<Pod>(&()));
    let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { continue };
        let now = Instant::now();
        let mut pods = shared.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = pods.0.entry(pod.name_any()).or_default();
        if bound.is_none() && pod.spec.node_name.is_some() {
            *bound = Some(now);
            pods.1 += 1;
        }
        drop(pods);
        shared.news.notify_waiters();
    }
}
