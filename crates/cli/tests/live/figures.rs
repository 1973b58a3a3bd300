//! Figures for the record, and that metrics say what happened. Nothing here is a limit: machines differ.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use futures::StreamExt;
use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use gpu_scheduler_testbed::objects::PodObject;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::time::Instant;

use crate::bed::{Bed, Scheduler, node_of};

const PODS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_to_bound_processor_time_and_memory_are_printed_and_counted() {
    let bed = Bed::start(4).await;
    // Counters are a process' own: pods that are bound in a term that was lost are not counted again.
    bed.elect_slowly();
    let scheduler = bed.scheduler("a");
    bed.cluster.add_pods([PodObject::new("first").build()]).await.expect("a pod");
    bed.bound("first").await;
    let before = processor_time(&scheduler);
    let times = tokio::spawn(watch_times(bed.pods()));
    // Sixteen are created at a time, so this is a burst of what the API server takes.
    bed.cluster
        .add_pods((0..PODS).map(|i| PodObject::new(&format!("p{i}")).share("8Gi", 10).build()))
        .await
        .expect("pods");
    let mut times = times.await.expect("all were bound");
    let used = processor_time(&scheduler) - before;
    times.sort_unstable();
    let of = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{PODS} shares on 4 nodes: created to bound, median {:?}, p99 {:?}; processor time {:?} a pod; resident {} MiB",
        of(50),
        of(99),
        used / u32::try_from(PODS).expect("a small number"),
        resident_mib(&scheduler)
    );
    // The watch may show a pod bound before the scheduler has the answer to its bind.
    let counted = async {
        while !counts(&get(scheduler.address(), "/metrics"), PODS + 1) {
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(PATIENCE, counted).await;
    assert!(counted.is_ok(), "{}", get(scheduler.address(), "/metrics"));
    assert!(get(scheduler.address(), "/readyz").ends_with("ok"));
    assert!(get(scheduler.address(), "/configz").contains("\"leaderElection\""));
    let why = get(scheduler.address(), "/debug/pods/default/p0");
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

fn processor_time(scheduler: &Scheduler) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", scheduler.pid())).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime, in hundredths of a second: fields 14 and 15 of proc(5), counted from the state.
    let ticks: u64 = fields[11..13].iter().map(|t| t.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_mib(scheduler: &Scheduler) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", scheduler.pid())).expect("it lives");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("it has memory");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") / 1024
}

/// The body of a page.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned()).unwrap_or_default()
}
