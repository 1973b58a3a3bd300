//! What the agent tells of its node: report, annotations, labels, metrics.

use gpu_scheduler_nvml_mock::describe::{Megabytes, Process};
use gpu_scheduler_nvml_mock::{Gpu, Node};
use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::usage::get;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::bed::{Bed, NODE, share};

fn device<'a>(state: &'a DynamicObject, uuid: &str) -> &'a Value {
    let devices = state.data["status"]["devices"].as_array().unwrap();
    devices.iter().find(|device| device["uuid"] == uuid).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_of_a_node() {
    let mut bed = Bed::with(Node::with((0..2).map(|_| Gpu::of("T4")).collect())).await;
    bed.create([share("a", "6Gi")]).await;
    let pod = bed.runs("a").await;
    let uuid = bed.devices("a", "main").await.remove(0);
    let container = bed.node.container("default", "a", "main").await.unwrap();
    let state = bed.states().get(NODE).await.unwrap();
    let card = device(&state, &uuid)["index"].as_u64().unwrap() as usize;
    // A process in the container and one of nobody's.
    bed.change_cards(|node| {
        let inside = Process { cgroup: Some(container.cgroup.clone()), ..Process::computing(4001, Megabytes(5000)) };
        let nobody =
            Process { cgroup: Some("/system.slice/x.service".to_owned()), ..Process::computing(4002, Megabytes(700)) };
        node.gpus[card].processes = vec![inside, nobody];
    });
    let holder = |state: &DynamicObject| device(state, &uuid)["holders"][0]["usedMiB"].as_u64();
    let state =
        until(&bed.states(), NODE, "the pod's use to be reported", |state| holder(state) == Some(5000)).await.unwrap();
    let reported = device(&state, &uuid);
    assert_eq!(reported["holders"][0]["pod"], "a");
    assert_eq!(reported["holders"][0]["podUID"], pod.uid().unwrap().as_str());
    assert_eq!(reported["holders"][0]["grantedMiB"], 6144);
    assert_eq!((&reported["foreignMemoryMiB"], &reported["mode"]), (&700.into(), &"shared".into()));
    assert_eq!(state.data["status"]["agent"]["handsOut"], true);
    let owner = &state.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.kind, &*owner.name), ("Node", NODE));

    let used = |node: &k8s_openapi::api::core::v1::Node| {
        node.annotations().get("gpu-scheduler/memory-used").and_then(|text| text.parse::<u64>().ok())
    };
    let node = bed.node_until("the annotations to follow", |node| used(node).is_some_and(|used| used >= 5700)).await;
    assert!(node.annotations().contains_key("gpu-scheduler/updated-at"));
    for (label, value) in
        [("nvidia.com/gpu.product", "Tesla-T4"), ("nvidia.com/gpu.count", "2"), ("nvidia.com/gpu.family", "turing")]
    {
        assert_eq!(node.labels().get(label).map(String::as_str), Some(value), "{label}");
    }

    let address = bed.agent.as_ref().unwrap().address();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(get(address, path).0, 200, "{path}");
    }
    let metrics = get(address, "/metrics").1;
    let line = |parts: &[&str]| metrics.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    let own = format!("UUID=\"{uuid}\"");
    assert!(
        line(&["DCGM_FI_DEV_FB_USED{", &own, "pod=\"a\"", "namespace=\"default\"", "container=\"main\""]),
        "{metrics}"
    );
    assert!(line(&["gpu_scheduler_agent_container_memory_used_mib{", &own, "pod=\"a\"", "} 5000"]), "{metrics}");
    assert!(line(&["gpu_scheduler_agent_foreign_memory_mib{", &own, "} 700"]), "{metrics}");

    // The API server goes away and comes back: then the newest is there, and nothing of the time between.
    bed.cluster.api_server().kill();
    bed.change_cards(|node| node.gpus[card].processes[0].used = Megabytes(3000));
    bed.cluster.api_server().restart().await.unwrap();
    until(&bed.states(), NODE, "the newest report", |state| holder(state) == Some(3000)).await.unwrap();

    // What ends is told no more.
    bed.change_cards(|node| node.gpus[card].processes.clear());
    bed.delete("a").await;
    let empty = |state: &DynamicObject| device(state, &uuid)["holders"].as_array().is_none_or(Vec::is_empty);
    until(&bed.states(), NODE, "nobody to hold the card", empty).await.unwrap();
    let gone = || !get(address, "/metrics").1.contains("pod=\"a\"");
    let deadline = std::time::Instant::now() + gpu_scheduler_testbed::control_plane::wait::PATIENCE;
    while !gone() {
        assert!(std::time::Instant::now() < deadline, "its series do not end");
        tokio::task::yield_now().await;
    }
    bed.check_after_outage().await;
}
