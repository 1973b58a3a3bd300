//! Two replicas: one leads, the other takes over, and a leader that was frozen does no harm.

use std::time::Duration;

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::Options;
use gpu_scheduler_testbed::objects::PodObject;
use tokio::time::Instant;

use crate::bed::{Bed, LEASE, holder};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_replica_takes_over_within_the_lease_time() {
    let bed = Bed::start(2).await;
    let first = bed.scheduler("first");
    let leader = holder(&bed, "").await;
    let _second = bed.scheduler("second");
    bed.cluster.add_pods((0..6).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    bed.bound_pods(6).await;
    first.kill();
    let killed = Instant::now();
    bed.cluster.add_pods((6..12).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    holder(&bed, &leader).await;
    println!("from the kill to the new leader: {:?} (lease {LEASE:?})", killed.elapsed());
    bed.bound_pods(12).await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_in_order_hands_over_at_once() {
    let bed = Bed::start(1).await;
    let first = bed.scheduler("first");
    let leader = holder(&bed, "").await;
    let _second = bed.scheduler("second");
    assert!(first.stop());
    holder(&bed, &leader).await;
    bed.cluster.add_pods([PodObject::new("a").gpus(1).build()]).await.expect("a pod");
    bed.bound("a").await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_frozen_steps_down_when_it_thaws() {
    // Field case 37. A late bind may double a card for up to five seconds before it is evicted.
    let rules = Rules { tolerance: Duration::from_secs(5), ..Rules::default() };
    let bed = Bed::with(1, Options::default(), rules).await;
    let first = bed.scheduler("first");
    let leader = holder(&bed, "").await;
    let second = bed.scheduler("second");
    bed.cluster.add_pods((0..2).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    bed.bound_pods(2).await;
    // In the middle of a burst, so that decisions are made and binds are out.
    bed.cluster.add_pods((2..8).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    first.freeze();
    let next = holder(&bed, &leader).await;
    bed.bound_pods(8).await;
    first.thaw();
    // It finds out, and stands by: a pod that comes now is bound by the other one alone.
    bed.delete("p0").await;
    bed.cluster.add_pods([PodObject::new("after").gpus(1).build()]).await.expect("a pod");
    bed.bound("after").await;
    second.kill();
    assert_eq!(holder(&bed, &next).await, leader, "it lives and leads again");
    assert!(first.log().contains("leads no more"), "it knew that its term had ended");
    bed.delete("p1").await;
    bed.cluster.add_pods([PodObject::new("last").gpus(1).build()]).await.expect("a pod");
    bed.bound("last").await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_frozen_begins_anew_even_if_nobody_leads() {
    let bed = Bed::start(1).await;
    let first = bed.scheduler("first");
    let leader = holder(&bed, "").await;
    bed.cluster.add_pods([PodObject::new("a").gpus(4).build()]).await.expect("a pod");
    bed.bound("a").await;
    first.freeze();
    let second = bed.scheduler("second");
    let next = holder(&bed, &leader).await;
    bed.cluster.add_pods([PodObject::new("b").gpus(4).build()]).await.expect("a pod");
    bed.bound("b").await;
    // It hands over in order, to nobody: the lease is free when the frozen one wakes up, which knows nothing of b.
    assert!(second.stop());
    first.thaw();
    assert_eq!(holder(&bed, &next).await, leader);
    bed.cluster.add_pods([PodObject::new("c").gpus(1).build()]).await.expect("a pod");
    bed.waits("c").await;
    assert!(first.log().contains("leads no more"), "its old term has ended");
    bed.check().await;
}
