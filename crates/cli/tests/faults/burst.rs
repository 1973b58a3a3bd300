//! Many pods at once, and how far they have come.

use std::collections::BTreeMap;

use futures::StreamExt;
use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::Options;
use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use gpu_scheduler_testbed::objects::PodObject;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::bed::{Bed, node_of};
use crate::chance::Chance;

/// Cards of a node.
const CARDS: usize = 8;
/// Pods of a burst that fit nowhere: one in so many.
const HOPELESS: usize = 40;

/// Nodes that nobody simulates: their heartbeats and the starts of pods are work that shows nothing here.
pub async fn bed(nodes: usize, rules: Rules) -> Bed {
    let options = Options { kwok: false, static_nodes: true, ..Options::default() };
    Bed::with(nodes, options, rules).await
}

/// Pods in random order that fill `nodes` nodes to the last card, three cards of four by halves and one by whole ones,
/// and some that fit nowhere. What is left on a card that is not there any more shows: then not all of them fit.
pub struct Burst {
    pub pods: Vec<Pod>,
    /// How many of them fit.
    pub fit: usize,
}

impl Burst {
    pub fn filling(nodes: usize, chance: &mut Chance) -> Self {
        let cards = nodes * CARDS;
        let (wholes, halves) = (cards / 4, (cards - cards / 4) * 2);
        let fit = wholes + halves;
        let whole = (0..wholes).map(|i| PodObject::new(&format!("whole-{i}")).gpus(1).build());
        let half = (0..halves).map(|i| PodObject::new(&format!("half-{i}")).share("40Gi", 50).build());
        let hopeless = (0..fit / HOPELESS).map(|i| PodObject::new(&format!("hopeless-{i}")).gpus(9).build());
        let mut pods: Vec<Pod> = whole.chain(half).chain(hopeless).collect();
        chance.shuffle(&mut pods);
        Self { pods, fit }
    }
}

/// How many pods are bound.
pub struct Progress {
    bound: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Progress {
    /// Follows the pods of the default namespace, whatever happens to the API server meanwhile.
    pub fn of(bed: &Bed) -> Self {
        let (count, bound) = watch::channel(0);
        let task = tokio::spawn(follow(bed.pods(), count));
        Self { bound, task }
    }

    /// Waits until so many are bound. Patience ends when nothing moves.
    pub async fn reach(&self, count: usize) {
        let mut bound = self.bound.clone();
        loop {
            let now = *bound.borrow_and_update();
            if now >= count {
                return;
            }
            let moved = timeout(PATIENCE, bound.changed()).await;
            assert!(moved.is_ok(), "{now} pods are bound, not {count}, and for {PATIENCE:?} there were no more");
        }
    }

    /// How many are bound now.
    pub fn now(&self) -> usize {
        *self.bound.borrow()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(pods: Api<Pod>, count: watch::Sender<usize>) {
    let mut bound: BTreeMap<String, bool> = BTreeMap::new();
    let mut events = Box::pin(watcher(pods, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => bound.clear(),
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                bound.insert(pod.uid().unwrap_or_default(), node_of(&pod).is_some());
            }
            Ok(watcher::Event::Delete(pod)) => drop(bound.remove(&pod.uid().unwrap_or_default())),
            // The watch goes on by itself.
            Ok(watcher::Event::InitDone) | Err(_) => {}
        }
        let now = bound.values().filter(|bound| **bound).count();
        count.send_if_modified(|count| std::mem::replace(count, now) != now);
    }
}
