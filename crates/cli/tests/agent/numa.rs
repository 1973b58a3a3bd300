//! A kubelet that aligns cards to NUMA nodes: what the scheduler places is what it admits, and the cards are those of the record.

use std::collections::BTreeSet;
use std::num::NonZeroU8;

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::node::{RealNodeOptions, TopologyManagerPolicy};
use gpu_scheduler_testbed::objects::{PodObject, waiting};
use k8s_openapi::api::core::v1::Pod;

use super::bed::{Bed, NODE, has_failed, shipped, whole};

/// Two sockets with four cards each, and a card in use on each of them.
async fn one_used_on_each_socket() -> (Bed, [BTreeSet<String>; 2]) {
    let options = RealNodeOptions {
        numa_nodes: NonZeroU8::new(2),
        topology_manager_policy: TopologyManagerPolicy::SingleNumaNode,
        ..RealNodeOptions::new(NODE)
    };
    let mut bed = Bed::without_agent(shipped("8xA100-80GB-SXM"), options).await;
    // What kubelet itself was started with.
    let config = bed.node.folder().join("kubelet.json");
    bed.start_agent(&["--kubelet-config", config.to_str().unwrap()]).await;
    bed.offers("nvidia.com/gpu", 8).await;
    let state = bed.states().get(NODE).await.unwrap().data;
    let said = serde_json::json!({"policy": "single-numa-node", "scope": "container"});
    assert_eq!(state["status"]["topologyManager"], said);
    let on = |numa: u64| {
        let devices = state["status"]["devices"].as_array().unwrap().iter().filter(|it| it["numaNode"] == numa);
        devices.map(|it| it["uuid"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let sockets = [on(0), on(1)];
    assert_eq!(sockets.each_ref().map(BTreeSet::len), [4, 4]);

    // kubelet begins with the lowest that has room.
    for (pod, cards, socket) in [("filler", 4, 0), ("right", 1, 1)] {
        bed.create([whole(pod, cards)]).await;
        bed.runs(pod).await;
        assert_on(&bed, pod, &sockets[socket]).await;
    }
    bed.delete("filler").await;
    bed.create([whole("left", 1)]).await;
    bed.runs("left").await;
    assert_on(&bed, "left", &sockets[0]).await;
    (bed, sockets)
}

/// Record, container and kubelet's books name the same cards, and those are on this socket.
async fn assert_on(bed: &Bed, pod: &str, socket: &BTreeSet<String>) {
    let devices: BTreeSet<String> = bed.devices(pod, "main").await.into_iter().collect();
    assert!(devices.is_subset(socket), "{pod}: {devices:?} of {socket:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_kubelet_would_refuse_waits() {
    let (mut bed, sockets) = one_used_on_each_socket().await;
    // So would it, or this test showed nothing.
    let past = PodObject::new("past").scheduler("nobody").gpus(4).node(NODE).runs().build();
    bed.create([past]).await;
    let past = until(&bed.pods(), "past", "kubelet to refuse it", has_failed).await.unwrap();
    assert_eq!(past.status.unwrap().reason.as_deref(), Some("TopologyAffinityError"));
    bed.delete("past").await;

    bed.create([whole("four", 4)]).await;
    let told = |pod: &Pod| waiting(pod).is_some_and(|why| why.contains("NUMA nodes that kubelet would admit"));
    let four = until(&bed.pods(), "four", "to be told why it waits", told).await.unwrap();
    let why = waiting(&four).unwrap();
    assert!(why.contains("4 asked: NUMA node 0 has 3 of 4 free, NUMA node 1 has 3 of 4 free"), "{why}");

    bed.create([whole("three", 3)]).await;
    bed.runs("three").await;
    assert_on(&bed, "three", &sockets[0]).await;
    bed.delete("right").await;
    bed.runs("four").await;
    assert_on(&bed, "four", &sockets[1]).await;
    bed.nothing_is_given_twice("nvidia.com/gpu").await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_card_of_a_share_is_the_records_to_choose() {
    let (mut bed, sockets) = one_used_on_each_socket().await;
    // kubelet would take the lowest NUMA node's seats as long as there are any.
    let used = bed.recorded("right", "main").await;
    let far = sockets[1].iter().find(|card| !used.contains(card)).unwrap();
    let share = PodObject::new("share").limit("gpu-scheduler/memory", "8Gi").annotation("gpu-scheduler/uuid", far);
    bed.create([share.runs().build()]).await;
    bed.runs("share").await;
    assert_eq!(&bed.devices("share", "main").await, std::slice::from_ref(far));
    bed.check().await;
}
