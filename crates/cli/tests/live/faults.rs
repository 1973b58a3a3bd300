//! Answers that are lost, requests that come late.

use std::time::Duration;

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::Options;
use gpu_scheduler_testbed::control_plane::wait::until_gone;
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use gpu_scheduler_testbed::proxy::{Fault, Gate, Proxy, Rule};
use http::{Method, StatusCode};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::bed::{Bed, holder};

fn binding(times: usize, fault: Fault) -> Rule {
    Rule { method: Method::POST, path: "/binding".to_owned(), times, fault }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_refused_answers_to_binds_lose_no_pod_and_double_no_card() {
    let bed = Bed::start(1).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    for (times, fault) in [
        // It took effect, and nobody says so.
        (3, Fault::Lose(StatusCode::GATEWAY_TIMEOUT)),
        (2, Fault::Lose(StatusCode::INTERNAL_SERVER_ERROR)),
        // It did not, and nobody says so either.
        (2, Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE)),
        (2, Fault::Refuse(StatusCode::TOO_MANY_REQUESTS)),
        (1, Fault::Refuse(StatusCode::CONFLICT)),
    ] {
        proxy.add(binding(times, fault));
    }
    // Reading back fails at first, too.
    proxy.add(Rule {
        method: Method::GET,
        path: "/pods/".into(),
        times: 1,
        fault: Fault::Refuse(StatusCode::BAD_GATEWAY),
    });
    // So does saying why a pod waits; and one pod's bind gets no answer, ever.
    let refused = Fault::Refuse(StatusCode::TOO_MANY_REQUESTS);
    proxy.add(Rule { method: Method::PATCH, path: "/pods/big/status".into(), times: 2, fault: refused });
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("big").gpus(9).build()]).await.expect("a pod");
    bed.waits("big").await;
    bed.cluster
        .add_pods((0..16).map(|i| PodObject::new(&format!("p{i}")).share("40Gi", 50).build()))
        .await
        .expect("pods");
    bed.bound_pods(16).await;
    assert_eq!(proxy.left(), 0, "every fault has happened");
    let silent = Fault::Refuse(StatusCode::INTERNAL_SERVER_ERROR);
    proxy.add(Rule { method: Method::POST, path: "/pods/stuck/binding".into(), times: usize::MAX, fault: silent });
    bed.cluster.add_pods([PodObject::new("stuck").build()]).await.expect("a pod");
    let why = bed.waits("stuck").await;
    assert!(why.contains("gets no answer"), "{why}");
    bed.cluster.add_pods([PodObject::new("other").build()]).await.expect("a pod");
    bed.bound("other").await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_late_bind_of_a_deposed_leader_is_evicted_from_the_card_that_it_doubles() {
    let rules = Rules { tolerance: Duration::from_secs(5), ..Rules::default() };
    let bed = Bed::with(0, Options::default(), rules).await;
    let node = NodeObject::new("n1").gpus(1, gpu_scheduler_testbed::objects::GpuModel::A100_80GB).build();
    bed.cluster.add_nodes([node]).await.expect("a node");
    let urgent: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000})).expect("a class");
    Api::all(bed.client()).create(&PostParams::default(), &urgent).await.expect("a class");
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gate = Gate::default();
    proxy.add(binding(1, Fault::Hold(gate.clone())));
    let first = bed.scheduler_through("first", &proxy);
    let leader = holder(&bed, "").await;
    bed.cluster.add_pods([PodObject::new("late").gpus(1).build()]).await.expect("a pod");
    // Decided and sent, but not there yet, when the leader stops for longer than its lease.
    gate.reached().await;
    first.freeze();
    bed.cluster.add_pods([PodObject::new("urgent").gpus(1).priority_class("urgent").build()]).await.expect("a pod");
    let _second = bed.scheduler("second");
    holder(&bed, &leader).await;
    bed.bound("urgent").await;
    gate.open();
    until_gone(&bed.pods(), "late").await.expect("it is evicted");
    assert_eq!(bed.bound("urgent").await, "n1", "who was there first stays");
    bed.check().await;
}
