//! Figures for the record, and that metrics say what happened. Nothing here is a limit: machines differ.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::usage::{get, memory_mib, processor_time};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::time::Instant;

use crate::bed::{Bed, node_of};

const PODS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_to_bound_processor_time_and_memory_are_printed_and_counted() {
    let bed = Bed::start(4).await;
    // Counters are a process' own: pods that are bound in a term that was lost are not counted again.
    bed.elect_slowly();
    let scheduler = bed.scheduler("a");
    bed.cluster.add_pods([PodObject::new("first").build()]).await.expect("a pod");
    bed.bound("first").await;
    let before = processor_time(scheduler.pid());
    let times = tokio::spawn(watch_times(bed.pods()));
    // Sixteen are created at a time, so this is a burst of what the API server takes.
    bed.cluster
        .add_pods((0..PODS).map(|i| PodObject::new(&format!("p{i}")).share("8Gi", 10).build()))
        .await
        .expect("pods");
    let mut times = times.await.expect("all were bound");
    let used = processor_time(scheduler.pid()) - before;
    times.sort_unstable();
    let of = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{PODS} shares on 4 nodes: created to bound, median {:?}, p99 {:?}; processor time {:?} a pod; resident {} MiB",
        of(50),
        of(99),
        used / u32::try_from(PODS).expect("a small number"),
        memory_mib(scheduler.pid(), "VmRSS")
    );
    // The watch may show a pod bound before the scheduler has the answer to its bind.
    let counted = async {
        while !counts(&get(scheduler.address(), "/metrics").1, PODS + 1) {
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(PATIENCE, counted).await;
    assert!(counted.is_ok(), "{}", get(scheduler.address(), "/metrics").1);
    assert!(get(scheduler.address(), "/readyz").1.ends_with("ok"));
    assert!(get(scheduler.address(), "/configz").1.contains("\"leaderElection\""));
    let why = get(scheduler.address(), "/debug/pods/default/p0").1;
    assert!(why.contains("\"phase\":\"Bound\""), "{why}");
    bed.check().await;
}

/// Whether metrics know of so many pods.
fn counts(metrics: &str, pods: usize) -> bool {
    let value = |series: &str| {
        let line = metrics.lines().find_map(|l| l.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    let series = [
        r#"scheduler_schedule_attempts_total{result="scheduled",profile="gpu-scheduler"}"#,
        r#"gpu_scheduler_binds_total{result="bound"}"#,
        "scheduler_pod_scheduling_attempts_count",
    ];
    series.iter().all(|series| value(series) >= pods as u64)
}

/// From the first sight of each pod to the sight of its node.
async fn watch_times(pods: kube::Api<k8s_openapi::api::core::v1::Pod>) -> Vec<Duration> {
    let mut seen: BTreeMap<String, Instant> = BTreeMap::new();
    let (mut bound, mut times) = (BTreeSet::new(), Vec::new());
    let mut events = Box::pin(watcher(pods, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { continue };
        let name = pod.metadata.name.clone().unwrap_or_default();
        let since = *seen.entry(name.clone()).or_insert_with(Instant::now);
        if name.starts_with('p') && node_of(&pod).is_some() && bound.insert(name) {
            times.push(since.elapsed());
            if times.len() >= PODS {
                return times;
            }
        }
    }
    times
}
