//! Pods that go at each stage of their way, restarts in the middle, and another scheduler on the same nodes.

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::wait::until_gone;
use gpu_scheduler_testbed::control_plane::{KubeScheduler, Options};
use gpu_scheduler_testbed::objects::PodObject;
use kube::ResourceExt;

use crate::bed::{Bed, node_of, waiting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_deleted_at_any_stage_leave_nothing_behind() {
    let bed = Bed::start(1).await;
    let _scheduler = bed.scheduler("a");
    // Pending, and bound.
    bed.cluster.add_pods([PodObject::new("bound").gpus(8).build()]).await.expect("a pod");
    bed.bound("bound").await;
    bed.cluster.add_pods([PodObject::new("pending").gpus(1).build()]).await.expect("a pod");
    bed.waits("pending").await;
    bed.delete("pending").await;
    bed.delete("bound").await;
    // On its way: created and deleted as fast as the server takes it, so that binds meet pods that are gone.
    for round in 0..5 {
        let names: Vec<String> = (0..8).map(|i| format!("brief-{round}-{i}")).collect();
        bed.cluster.add_pods(names.iter().map(|n| PodObject::new(n).gpus(1).build())).await.expect("pods");
        for name in &names {
            bed.delete(name).await;
            until_gone(&bed.pods(), name).await.expect("it is gone");
        }
    }
    // Field case 5: nothing is left of them. All eight cards are free.
    bed.cluster.add_pods([PodObject::new("all").gpus(8).build()]).await.expect("a pod");
    assert_eq!(bed.bound("all").await, "n1");
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_burst_it_goes_on_where_it_was() {
    let bed = Bed::start(3).await;
    let first = bed.scheduler("first");
    // 24 cards: 40 halves and 4 whole ones fill them exactly.
    let halves = (0..40).map(|i| PodObject::new(&format!("half-{i:02}")).share("40Gi", 50).build());
    let whole = (0..4).map(|i| PodObject::new(&format!("whole-{i}")).gpus(1).build());
    bed.cluster.add_pods(halves.chain(whole)).await.expect("pods");
    bed.bound_pods(10).await;
    first.kill();
    let _second = bed.scheduler("second");
    bed.bound_pods(44).await;
    bed.cluster.add_pods([PodObject::new("more").limit("gpu-scheduler/memory", "1Gi").build()]).await.expect("a pod");
    let why = bed.waits("more").await;
    assert!(why.starts_with("0/3 nodes are available: "), "the cluster is full to the last MiB: {why}");
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_another_scheduler_no_pod_is_lost() {
    // Field case 20.
    let options = Options { kube_scheduler: Some(KubeScheduler::default()), ..Options::default() };
    let bed = Bed::with(1, options, Rules::default()).await;
    // What the other one placed before we came is accounted.
    let theirs = |i: usize| PodObject::new(&format!("theirs-{i}")).gpus(1).scheduler("default-scheduler").build();
    bed.cluster.add_pods((0..3).map(theirs)).await.expect("pods");
    bed.bound_pods(3).await;
    let _scheduler = bed.scheduler("a");
    bed.cluster.add_pods([PodObject::new("six").gpus(6).build()]).await.expect("a pod");
    let why = bed.waits("six").await;
    assert!(why.contains("Insufficient nvidia.com/gpu"), "{why}");
    // Both at once. Without a kubelet a race may end on one node; then each of ours still holds cards of its own, and
    // those that found no room say so.
    let ours = |i: usize| PodObject::new(&format!("ours-{i}")).gpus(1).build();
    bed.cluster.add_pods((3..6).map(theirs).chain((0..4).map(ours))).await.expect("pods");
    let settled = |p: &k8s_openapi::api::core::v1::Pod| node_of(p).is_some() || waiting(p).is_some();
    for pod in bed.all_pods().await {
        let name = pod.name_any();
        let what = "every pod to be bound or to say why not";
        gpu_scheduler_testbed::control_plane::wait::until(&bed.pods(), &name, what, settled)
            .await
            .expect("it is settled");
    }
    // When theirs go, ours get their cards.
    for i in 0..6 {
        bed.delete(&format!("theirs-{i}")).await;
    }
    for i in 0..4 {
        bed.bound(&format!("ours-{i}")).await;
    }
    bed.check().await;
}
