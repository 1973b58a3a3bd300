//! Others bind what we were about to bind, or fill what we were about to fill.

use gpu_scheduler_testbed::checker::{Rules, Violation};
use gpu_scheduler_testbed::control_plane::{KubeScheduler, Options};
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::Proxy;
use serde_json::json;

use crate::bed::Bed;
use crate::burst::{self, Progress};
use crate::chance::Chance;
use crate::deletions::held;

/// Binds a pod as another scheduler does: without a record.
async fn bind(bed: &Bed, pod: &str, node: &str) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
                         "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/binding"))
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .expect("a request");
    bed.client().request_text(request).await.expect("it is bound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_somebody_else_binds_first_stays_there_and_frees_what_it_was_to_have() {
    // Field case 20: ours notices the foreign bind, and unbinds nothing.
    let bed = burst::bed(2, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gates = [held(&proxy, "a"), held(&proxy, "b")];
    let _scheduler = bed.scheduler_through("s", &proxy);
    // One on each node; the other one binds both to the first.
    bed.cluster.add_pods(["a", "b"].map(|name| PodObject::new(name).gpus(5).build())).await.expect("pods");
    for gate in &gates {
        gate.reached().await;
    }
    bind(&bed, "a", "n1").await;
    bind(&bed, "b", "n1").await;
    for gate in &gates {
        gate.open();
    }
    // All of n2 is free, and nothing of n1 is: ten cards are used of its eight.
    bed.cluster.add_pods([PodObject::new("all").gpus(8).build()]).await.expect("a pod");
    assert_eq!(bed.bound("all").await, "n2");
    bed.cluster.add_pods([PodObject::new("more").gpus(1).build()]).await.expect("a pod");
    bed.waits("more").await;
    assert_eq!((bed.bound("a").await, bed.bound("b").await), ("n1".to_owned(), "n1".to_owned()));
    // What the other one does is wrong, and all that is.
    let without = |pod: &str| Violation::BoundWithoutRecord { pod: pod.to_owned() };
    assert_eq!(bed.checker.verdict().await.violations, [without("a"), without("b")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_beside_another_scheduler_it_finds_what_that_one_placed_and_no_more() {
    // Field case 20: both place pods on the same nodes at the same time.
    let mut chance = Chance::new();
    let (kwok, static_nodes, kube_scheduler) = (false, true, Some(KubeScheduler::default()));
    let options = Options { kwok, static_nodes, kube_scheduler, ..Options::default() };
    let bed = Bed::with(10, options, Rules::default()).await;
    let ours = (0..30).map(|i| PodObject::new(&format!("ours-{i}")).gpus(1).build());
    let theirs = |i: usize| PodObject::new(&format!("theirs-{i}")).gpus(1).scheduler("default-scheduler").build();
    let mut pods: Vec<_> = ours.chain((0..30).map(theirs)).collect();
    chance.shuffle(&mut pods);
    let progress = Progress::of(&bed);
    let scheduler = bed.scheduler("first");
    let point = chance.below(60);
    let killing = async {
        progress.reach(point).await;
        scheduler.kill();
        println!("killed at {} bound pods, meant for {point}", progress.now());
        bed.scheduler("second")
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    let (_second, ()) = tokio::join!(killing, created);
    // Of eighty cards sixty are asked for.
    progress.reach(60).await;
    for i in 0..30 {
        bed.delete(&format!("theirs-{i}")).await;
    }
    // Nothing is left of theirs: all other cards can be had.
    let rest = (0..50).map(|i| PodObject::new(&format!("rest-{i}")).gpus(1).build());
    bed.cluster.add_pods(rest).await.expect("pods");
    progress.reach(80).await;
    bed.check().await;
}
