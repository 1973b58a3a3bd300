//! The API server goes away in the middle of a burst, or only its watches do.

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::{Fault, Proxy, Rule};
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::burst::{self, Burst, Progress};
use crate::chance::Chance;

const NODES: usize = 30;
/// How often it happens in one burst.
const TIMES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_restarts_in_a_burst_costs_time_alone() {
    let mut chance = Chance::new();
    let mut bed = burst::bed(NODES, Rules::default()).await;
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    bed.cluster.add_pods(pods).await.expect("pods");
    let progress = Progress::of(&bed);
    let _scheduler = bed.scheduler("a");
    for point in chance.points(TIMES, fit) {
        progress.reach(point).await;
        println!("restarted at {} bound pods, meant for {point}", progress.now());
        bed.cluster.api_server().restart().await.expect("it starts again");
    }
    progress.reach(fit).await;
    bed.check_after_restart().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_cut_in_a_burst_miss_nothing() {
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let progress = Progress::of(&bed);
    let _scheduler = bed.scheduler_through("a", &proxy);
    let cutting = async {
        for point in chance.points(TIMES * 2, fit) {
            progress.reach(point).await;
            proxy.cut();
            println!("cut at {} bound pods, meant for {point}", progress.now());
        }
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    tokio::join!(cutting, created);
    progress.reach(fit).await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_deleted_while_nobody_watched_frees_its_cards() {
    // Field case 5: its end is seen only by what a new list does not name.
    let bed = burst::bed(1, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("ghost").gpus(8).build()]).await.expect("a pod");
    bed.bound("ghost").await;
    bed.cluster.add_pods([PodObject::new("next").gpus(8).build()]).await.expect("a pod");
    bed.waits("next").await;
    // No watch can begin again where it ended: its version is too old by now.
    proxy.add(Rule {
        method: Method::GET,
        path: "/api/v1/pods".to_owned(),
        times: usize::MAX,
        fault: Fault::Refuse(StatusCode::GONE),
    });
    proxy.cut();
    timeout(PATIENCE, proxy.happened(1)).await.expect("it tries to go on");
    bed.delete("ghost").await;
    proxy.clear();
    assert_eq!(bed.bound("next").await, "n1");
    bed.check().await;
}
