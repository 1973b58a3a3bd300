//! Binds that are answered with errors, before or after they took effect, at random.

use std::collections::BTreeMap;

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::proxy::{Fault, Proxy, Rule};
use http::{Method, StatusCode};
use kube::ResourceExt;

use crate::burst::{self, Burst, Progress};
use crate::chance::Chance;

const NODES: usize = 30;
/// Of a hundred pods, those whose bind meets a fault.
const UNLUCKY: usize = 40;
const STATUSES: [StatusCode; 4] = [
    StatusCode::CONFLICT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::GATEWAY_TIMEOUT,
];

fn fault(chance: &mut Chance) -> (String, Fault) {
    let status = chance.pick(&STATUSES);
    match chance.below(5) {
        0 => ("broken off".to_owned(), Fault::Break),
        1 | 2 => (format!("{status} after it took effect"), Fault::Lose(status)),
        _ => (format!("{status} in its place"), Fault::Refuse(status)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_answer_to_binds_of_a_burst_lose_no_pod_and_double_no_card() {
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let mut counts = BTreeMap::<String, usize>::new();
    for pod in &pods {
        // One after the other, for some pods.
        while chance.percent(UNLUCKY) {
            let (what, fault) = fault(&mut chance);
            *counts.entry(what).or_default() += 1;
            let path = format!("/pods/{}/binding", pod.name_any());
            proxy.add(Rule { method: Method::POST, path, times: 1, fault });
        }
        // Then nobody can say whether it took effect, for a while.
        if chance.percent(UNLUCKY / 4) {
            let path = format!("/pods/{}", pod.name_any());
            proxy.add(Rule { method: Method::GET, path, times: 1, fault: Fault::Refuse(chance.pick(&STATUSES)) });
        }
    }
    println!("{counts:?}");
    let progress = Progress::of(&bed);
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods(pods).await.expect("pods");
    progress.reach(fit).await;
    assert!(proxy.left() < counts.values().sum(), "faults have happened");
    bed.check().await;
}
