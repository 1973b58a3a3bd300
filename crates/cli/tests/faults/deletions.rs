//! Pods that go between the decision and the bind, and at random.

use std::collections::BTreeSet;

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::{Fault, Gate, Proxy, Rule};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::bed::Bed;
use crate::burst::{self, Burst, Progress};
use crate::chance::Chance;

const NODES: usize = 15;

/// The bind of this pod goes on when the gate is opened.
pub fn held(proxy: &Proxy, pod: &str) -> Gate {
    let gate = Gate::default();
    let path = format!("/pods/{pod}/binding");
    proxy.add(Rule { method: Method::POST, path, times: 1, fault: Fault::Hold(gate.clone()) });
    gate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_goes_between_decision_and_bind_blocks_nobody() {
    // Field cases 6 and 38.
    let bed = burst::bed(2, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gate = held(&proxy, "first");
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("first").gpus(8).build()]).await.expect("a pod");
    gate.reached().await;
    bed.delete("first").await;
    // Others are bound meanwhile, on what is left and then on what it was to have: nothing is locked.
    bed.cluster.add_pods([PodObject::new("second").gpus(8).build()]).await.expect("a pod");
    bed.bound("second").await;
    gate.open();
    bed.cluster.add_pods([PodObject::new("third").gpus(8).build()]).await.expect("a pod");
    assert_ne!(bed.bound("third").await, bed.bound("second").await);
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_the_same_name_is_not_bound_by_the_decision_for_the_one_before() {
    let bed = burst::bed(1, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gate = held(&proxy, "same");
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("same").gpus(1).build()]).await.expect("a pod");
    gate.reached().await;
    bed.delete("same").await;
    // It would fit on the one card of the decision, and needs all eight.
    bed.cluster.add_pods([PodObject::new("same").gpus(8).build()]).await.expect("a pod");
    gate.open();
    bed.bound("same").await;
    // Its record is its own: the checker compares nothing with requests, so this does.
    let pod = bed.pods().get("same").await.expect("it is there");
    assert_eq!(cards(&pod).len(), 8, "{pod:?}");
    bed.check().await;
}

/// The cards of a pod's record.
pub fn cards(pod: &Pod) -> BTreeSet<String> {
    let record = pod.annotations().get("gpu-scheduler/allocation").map(String::as_str).unwrap_or("{}");
    let record: serde_json::Value = serde_json::from_str(record).expect("a record is JSON");
    let containers = record["containers"].as_array().into_iter().flatten();
    let devices = containers.flat_map(|container| container["devices"].as_array().into_iter().flatten());
    devices.filter_map(|device| device["uuid"].as_str().map(ToOwned::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_deleted_at_random_in_a_burst_leave_no_ghosts() {
    // Field case 5, and a place in the queue or a card that is kept for somebody who is gone.
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    let _scheduler = bed.scheduler("a");
    let Burst { pods, .. } = Burst::filling(NODES, &mut chance);
    let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    // In parts, each deleted as soon as it is there: some wait, some are on their way, some are bound.
    let mut victims = Vec::new();
    for (part, pods) in pods.chunks(40).enumerate() {
        bed.cluster.add_pods(pods.to_vec()).await.expect("pods");
        let doomed: Vec<&String> = names[part * 40..].iter().take(40).filter(|_| chance.percent(50)).collect();
        for name in doomed {
            bed.delete(name).await;
            victims.push(name.clone());
        }
    }
    println!("{} of {} pods were deleted", victims.len(), names.len());
    for name in names.iter().filter(|name| !victims.contains(name)) {
        bed.delete(name).await;
    }
    all_is_free(&bed, &mut chance).await;
    bed.check().await;
}

/// Every card can be had: a burst that fills all nodes is bound whole.
async fn all_is_free(bed: &Bed, chance: &mut Chance) {
    let Burst { pods, fit } = Burst::filling(NODES, chance);
    let progress = Progress::of(bed);
    bed.cluster.add_pods(pods).await.expect("pods");
    progress.reach(fit).await;
}
