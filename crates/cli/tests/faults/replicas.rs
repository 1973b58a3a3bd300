//! Two replicas, of which the leader is frozen past its lease and thawed.

use std::time::Duration;

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::Options;
use gpu_scheduler_testbed::control_plane::wait::until_gone;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::{Fault, Gate, Proxy, Rule};
use http::Method;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::bed::{Bed, holder};
use crate::burst::{Burst, Progress};
use crate::chance::Chance;

const NODES: usize = 20;
/// How often the leader is frozen in one burst.
const TIMES: usize = 3;
/// How long a card may be held twice by the late bind of a deposed leader.
const RESOLVED: Duration = Duration::from_secs(5);

/// With nodes on which pods that are evicted go: kwok plays kubelet.
async fn bed(nodes: usize) -> Bed {
    Bed::with(nodes, Options::default(), Rules { tolerance: RESOLVED, ..Rules::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_frozen_past_their_lease_in_a_burst_lead_in_turn_and_bind_nothing_old() {
    // Field case 37: A, B, A.
    let mut chance = Chance::new();
    let bed = bed(NODES).await;
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let progress = Progress::of(&bed);
    let mut leader = bed.scheduler("a");
    let mut identity = holder(&bed, "").await;
    let mut other = bed.scheduler("b");
    let freezing = async {
        for point in chance.points(TIMES, fit) {
            progress.reach(point).await;
            leader.freeze();
            println!("frozen at {} bound pods, meant for {point}", progress.now());
            identity = holder(&bed, &identity).await;
            leader.thaw();
            std::mem::swap(&mut leader, &mut other);
        }
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    tokio::join!(freezing, created);
    progress.reach(fit).await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_binds_of_a_thawed_leader_double_cards_for_seconds_at_most() {
    let bed = bed(2).await;
    let urgent: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000})).expect("a class");
    Api::all(bed.client()).create(&PostParams::default(), &urgent).await.expect("a class");
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gates: Vec<(String, Gate)> = (0..16).map(|i| (format!("late-{i}"), Gate::default())).collect();
    for (pod, gate) in &gates {
        let path = format!("/pods/{pod}/binding");
        proxy.add(Rule { method: Method::POST, path, times: 1, fault: Fault::Hold(gate.clone()) });
    }
    let first = bed.scheduler_through("first", &proxy);
    let leader = holder(&bed, "").await;
    bed.cluster.add_pods(gates.iter().map(|(pod, _)| PodObject::new(pod).gpus(1).build())).await.expect("pods");
    // Decided and sent, but not there yet, when the leader stops for longer than its lease.
    for (_, gate) in &gates {
        gate.reached().await;
    }
    first.freeze();
    let winners = (0..16).map(|i| PodObject::new(&format!("urgent-{i}")).gpus(1).priority_class("urgent").build());
    bed.cluster.add_pods(winners).await.expect("pods");
    let _second = bed.scheduler("second");
    holder(&bed, &leader).await;
    for i in 0..16 {
        bed.bound(&format!("urgent-{i}")).await;
    }
    first.thaw();
    for (_, gate) in &gates {
        gate.open();
    }
    for (pod, _) in &gates {
        until_gone(&bed.pods(), pod).await.expect("it is evicted");
    }
    for i in 0..16 {
        bed.bound(&format!("urgent-{i}")).await;
    }
    bed.check().await;
}
