//! Cards that fail while they are used, and while they are free; and cards that are well again.

use gpu_scheduler_nvml_mock::describe::Xid;
use gpu_scheduler_nvml_mock::{Gpu, Node};
use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::objects::waiting;

use super::bed::{Bed, is_running, whole};

/// The number of a card by its UUID.
async fn number(bed: &Bed, uuid: &str) -> usize {
    let state = bed.states().get("n1").await.unwrap();
    let devices = state.data["status"]["devices"].as_array().unwrap();
    devices.iter().position(|device| device["uuid"] == uuid).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_fails_and_recovers() {
    let mut bed = Bed::with(Node::with((0..4).map(|_| Gpu { energy: 5000, ..Gpu::of("A10") }).collect())).await;
    bed.create([whole("a", 1)]).await;
    bed.runs("a").await;
    let used = bed.devices("a", "main").await;
    let used_number = number(&bed, &used[0]).await;
    let free_number = (used_number + 1) % 4;

    let xid = |id| Xid { id, xid: 79, gpu_instance: None, compute_instance: None };
    bed.change_cards(|node| node.gpus[used_number].xids.push(xid(1)));
    bed.offers("nvidia.com/gpu", 3).await;
    bed.change_cards(|node| node.gpus[free_number].xids.push(xid(2)));
    bed.offers("nvidia.com/gpu", 2).await;
    bed.offers("nvidia.com/gpu.shared", 2 * 48).await;
    let what = "the report to say so";
    let unhealthy =
        |n: usize, state: &kube::api::DynamicObject| state.data["status"]["devices"][n]["health"] == "Unhealthy";
    let both = |state: &kube::api::DynamicObject| unhealthy(used_number, state) && unhealthy(free_number, state);
    until(&bed.states(), "n1", what, both).await.unwrap();
    assert!(is_running(&bed.pods().get("a").await.unwrap()), "what runs on it is not the agent's to end");

    bed.create([whole("b", 1)]).await;
    bed.runs("b").await;
    let b = number(&bed, &bed.devices("b", "main").await[0]).await;
    assert!(b != used_number && b != free_number);
    // kubelet offers two cards and one pod has one, though another, so by Kubernetes' count nothing is left.
    bed.create([whole("c", 1)]).await;
    until(&bed.pods(), "c", "c to wait", |pod| waiting(pod).is_some()).await.unwrap();

    // A reset begins its energy anew.
    bed.change_cards(|node| node.gpus[free_number].energy = 3);
    bed.offers("nvidia.com/gpu", 3).await;
    bed.runs("c").await;
    let c = number(&bed, &bed.devices("c", "main").await[0]).await;
    assert!(c != used_number && c != b);
    bed.check().await;
}
