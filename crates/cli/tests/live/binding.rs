//! What a bind is: node and record in one write, on cards that are free.

use std::collections::BTreeMap;

use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use gpu_scheduler_testbed::objects::PodObject;
use k8s_openapi::api::core::v1::{Event as CoreEvent, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bed::{Bed, node_of};

/// The devices of a pod's record: container, kind, UUID, memory, compute.
fn devices(pod: &k8s_openapi::api::core::v1::Pod) -> Vec<(String, String, String, u64, u64)> {
    let record = pod.annotations().get("gpu-scheduler/allocation").map(String::as_str).unwrap_or("{}");
    let record: Value = serde_json::from_str(record).expect("a record is JSON");
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let containers = record["containers"].as_array().cloned().unwrap_or_default();
    let each = |c: &Value| {
        let (name, kind) = (text(&c["name"]), text(&c["kind"]));
        c["devices"].as_array().cloned().unwrap_or_default().into_iter().map(move |d| {
            let amounts = (d["memoryMiB"].as_u64().unwrap_or(0), d["computePercent"].as_u64().unwrap_or(0));
            (name.clone(), kind.clone(), text(&d["uuid"]), amounts.0, amounts.1)
        })
    };
    containers.iter().flat_map(each).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_whole_cards_and_both_are_bound_with_their_records_in_one_write() {
    let bed = Bed::start(1).await;
    let scheduler = bed.scheduler("a");
    let pods = [
        PodObject::new("share").share("8Gi", 30).build(),
        PodObject::new("two-shares").share("8Gi", 30).share_gpus(2).build(),
        PodObject::new("whole").gpus(2).build(),
        PodObject::new("plain").build(),
    ];
    bed.cluster.add_pods(pods).await.expect("pods");
    for name in ["share", "two-shares", "whole", "plain"] {
        assert_eq!(bed.bound(name).await, "n1");
    }
    let of: BTreeMap<String, _> = bed.all_pods().await.iter().map(|p| (p.name_any(), devices(p))).collect();
    let kinds = |name: &str| of[name].iter().map(|d| (d.1.as_str(), d.3, d.4)).collect::<Vec<_>>();
    assert_eq!(kinds("share"), [("share", 8192, 30)]);
    assert_eq!(kinds("two-shares"), [("share", 8192, 30), ("share", 8192, 30)]);
    assert_ne!(of["two-shares"][0].2, of["two-shares"][1].2, "on distinct cards");
    assert_eq!(kinds("whole"), [("whole", 81920, 100), ("whole", 81920, 100)]);
    assert_eq!(kinds("plain"), []);
    // Events, as people and tools look for them.
    let events = Api::<Event>::namespaced(bed.client(), "default");
    let find =
        |e: &Event| e.reason.as_deref() == Some("Scheduled") && e.note.as_deref().is_some_and(|n| n.contains("share"));
    let told = async {
        loop {
            let list = events.list(&ListParams::default()).await.expect("events");
            if let Some(event) = list.items.iter().find(|e| find(e)) {
                return event.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let event =
        tokio::time::timeout(gpu_scheduler_testbed::control_plane::wait::PATIENCE, told).await.expect("an event");
    assert_eq!(event.reporting_controller.as_deref(), Some("gpu-scheduler"));
    assert!(event.note.as_deref().is_some_and(|n| n.starts_with("Successfully assigned default/")), "{event:?}");
    // The same events are what `kubectl describe` reads.
    let core =
        Api::<CoreEvent>::namespaced(bed.client(), "default").list(&ListParams::default()).await.expect("events");
    assert!(core.items.iter().any(|e| e.reason.as_deref() == Some("Scheduled")));
    bed.check().await;
    assert!(scheduler.stop(), "it ends well when asked to");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_shares_never_overfills_a_card() {
    // Field case 2: 16 halves on 8 cards are two a card; more of them wait and say so.
    let bed = Bed::start(1).await;
    let _scheduler = bed.scheduler("a");
    let pods = (0..20).map(|i| PodObject::new(&format!("half-{i:02}")).share("40Gi", 50).build());
    bed.cluster.add_pods(pods).await.expect("pods");
    bed.bound_pods(16).await;
    let mut per_card: BTreeMap<String, usize> = BTreeMap::new();
    for pod in bed.all_pods().await {
        for device in devices(&pod) {
            *per_card.entry(device.2).or_default() += 1;
        }
    }
    assert_eq!(per_card.values().copied().collect::<Vec<_>>(), [2; 8]);
    for pod in bed.all_pods().await.iter().filter(|p| node_of(p).is_none()) {
        let why = bed.waits(&pod.name_any()).await;
        assert!(why.starts_with("0/1 nodes are available: "), "{why}");
    }
    // Field case 1: delete one and create another at once: it gets exactly what was freed.
    let freed = bed.all_pods().await.into_iter().find(|p| node_of(p).is_some()).expect("a bound pod");
    bed.delete(&freed.name_any()).await;
    bed.bound_pods(16).await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_quota_counts_cards_and_memory_of_shares() {
    let bed = Bed::start(1).await;
    let _scheduler = bed.scheduler("a");
    let quota: ResourceQuota = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "2", "requests.gpu-scheduler/memory": "20Gi"}},
    }))
    .expect("a quota");
    let quotas = Api::<ResourceQuota>::namespaced(bed.client(), "default");
    quotas.create(&PostParams::default(), &quota).await.expect("a quota");
    let what = "the quota to be in force";
    gpu_scheduler_testbed::control_plane::wait::until(&quotas, "gpus", what, |q| {
        q.status.as_ref().and_then(|s| s.hard.as_ref()).is_some_and(|h| h.len() == 2)
    })
    .await
    .expect("it is in force");
    // Its status is the controller's word; admission reads a cache of its own, and shows what it knows only by refusing.
    let (trial, too_many) =
        (PostParams { dry_run: true, ..PostParams::default() }, PodObject::new("x").gpus(3).build());
    let refused = async { while bed.pods().create(&trial, &too_many).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.expect("admission knows the quota");
    bed.cluster
        .add_pods([PodObject::new("two").gpus(2).build(), PodObject::new("s").share("16Gi", 10).build()])
        .await
        .expect("within it");
    let create = async |pod| bed.pods().create(&PostParams::default(), &pod).await;
    for pod in [PodObject::new("third").gpus(1).build(), PodObject::new("more").share("8Gi", 10).build()] {
        let refused = create(pod).await.expect_err("it is over the quota").to_string();
        assert!(refused.contains("exceeded quota: gpus"), "{refused}");
    }
    create(PodObject::new("rest").share("4Gi", 10).build()).await.expect("exactly what is left");
    bed.bound_pods(3).await;
    bed.check().await;
}
