//! kill -9 of the scheduler at random points of a burst.

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::deploy;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::Instant;

use crate::bed::{Bed, holder};
use crate::burst::{self, Burst, Progress};
use crate::chance::{Chance, kills};

/// Nodes that two thousand pods fill: 300 whole cards, 900 in halves, 52 pods that fit nowhere.
const NODES: usize = 150;
/// Of a hundred kills, those that meet a scheduler which has just begun to lead and has not seen all yet.
const EARLY: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_points_of_a_burst_it_loses_no_pod_and_doubles_no_card() {
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let points = chance.points(kills(), fit);
    println!("killed when {points:?} of {fit} pods are bound");
    let progress = Progress::of(&bed);
    let began = Instant::now();
    let killing = async {
        let mut scheduler = bed.scheduler("s0");
        let mut dead = String::new();
        for (kill, point) in points.into_iter().enumerate() {
            // One that stands by is worth no kill.
            holder(&bed, &dead).await;
            if !chance.percent(EARLY) {
                progress.reach(point).await;
            }
            scheduler.kill();
            dead = last_holder(&bed).await;
            println!("kill {kill} at {} bound pods, after {:?}", progress.now(), began.elapsed());
            scheduler = bed.scheduler(&format!("s{}", kill + 1));
        }
        scheduler
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    let (_scheduler, ()) = tokio::join!(killing, created);
    progress.reach(fit).await;
    println!("all bound after {:?}", began.elapsed());
    bed.check().await;
}

/// Who holds the lease, dead or alive; nobody has the empty name.
async fn last_holder(bed: &Bed) -> String {
    let leases = Api::<Lease>::namespaced(bed.client(), deploy::NAMESPACE);
    let lease = leases.get_opt("gpu-scheduler").await.expect("the API server answers");
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}
