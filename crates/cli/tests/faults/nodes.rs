//! Nodes that are cordoned, deleted, and come again while a burst is bound to them.

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use gpu_scheduler_testbed::proxy::Proxy;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::bed::{Bed, node_of, waiting};
use crate::burst::{self, Burst, Progress};
use crate::chance::Chance;
use crate::deletions::{cards, held};

const NODES: usize = 20;

async fn cordon(bed: &Bed, node: &str, on: bool) {
    let patch = Patch::Merge(json!({"spec": {"unschedulable": on}}));
    Api::<Node>::all(bed.client()).patch(node, &PatchParams::default(), &patch).await.expect("a node can be cordoned");
}

async fn remove(bed: &Bed, node: &str) {
    Api::<Node>::all(bed.client()).delete(node, &DeleteParams::default()).await.expect("a node can be deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_go_and_come_in_a_burst_lose_no_pod_and_double_no_card() {
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let mut nodes: Vec<String> = (1..=NODES).map(|n| format!("n{n}")).collect();
    chance.shuffle(&mut nodes);
    let (gone, cordoned) = (nodes[..3].to_vec(), nodes[3..6].to_vec());
    let mut points = chance.points(gone.len() + cordoned.len(), fit / 2).into_iter();
    let progress = Progress::of(&bed);
    let _scheduler = bed.scheduler("a");
    let harming = async {
        for (gone, cordoned) in gone.iter().zip(&cordoned) {
            progress.reach(points.next().expect("one for each")).await;
            remove(&bed, gone).await;
            progress.reach(points.next().expect("one for each")).await;
            cordon(&bed, cordoned, true).await;
        }
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    tokio::join!(harming, created);
    // All settle on what is left, or say why not.
    bed.check().await;
    println!("{} of {fit} pods are bound without {gone:?} and {cordoned:?}", progress.now());
    // The nodes come again, under names that pods are still bound to: their cards are not free for others.
    bed.cluster.add_nodes(gone.iter().map(|node| NodeObject::new(node).ready().build())).await.expect("nodes");
    for node in &cordoned {
        cordon(&bed, node, false).await;
    }
    progress.reach(fit).await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cordoned_between_decision_and_bind_gets_no_pod_after_that() {
    let bed = burst::bed(1, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gate = held(&proxy, "decided");
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("decided").gpus(1).build()]).await.expect("a pod");
    gate.reached().await;
    cordon(&bed, "n1", true).await;
    let why = |p: &Pod| waiting(p).is_some_and(|w| w.contains("1 node(s) were unschedulable"));
    until_known(&bed, why).await;
    gate.open();
    bed.bound("decided").await;
    bed.cluster.add_pods((0..7).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    for i in 0..7 {
        until(&bed.pods(), &format!("p{i}"), "a pod to name the cordon", why).await.expect("it waits");
    }
    let pods = bed.all_pods().await;
    let holders = pods.iter().filter(|p| node_of(p).is_some() && !cards(p).is_empty());
    assert_eq!(holders.map(ResourceExt::name_any).collect::<Vec<_>>(), ["decided"]);
    bed.check().await;
}

/// Waits until the scheduler knows of the cordon. Watches of different kinds race, so that pods may still be bound that
/// come right after it; the first that is not names it.
async fn until_known(bed: &Bed, names_cordon: impl Fn(&Pod) -> bool) {
    for probe in (0..).map(|i| format!("probe-{i}")) {
        bed.cluster.add_pods([PodObject::new(&probe).build()]).await.expect("a pod");
        let settled = |p: &Pod| node_of(p).is_some() || names_cordon(p);
        let pod = until(&bed.pods(), &probe, "a pod to be bound or to name the cordon", settled).await;
        if node_of(&pod.expect("it is settled")).is_none() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_deleted_between_decision_and_bind_and_created_again_gives_no_card_twice() {
    let bed = burst::bed(1, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gate = held(&proxy, "decided");
    let _scheduler = bed.scheduler_through("a", &proxy);
    bed.cluster.add_pods([PodObject::new("decided").gpus(8).build()]).await.expect("a pod");
    gate.reached().await;
    remove(&bed, "n1").await;
    bed.cluster.add_pods([PodObject::new("other").gpus(8).build()]).await.expect("a pod");
    bed.waits("other").await;
    // It is another machine of the same name, and the bind that is on its way names it as well.
    bed.cluster.add_nodes([NodeObject::new("n1").ready().build()]).await.expect("a node");
    bed.cluster.add_pods([PodObject::new("probe").build()]).await.expect("a pod");
    // The scheduler knows the node, and has tried whoever waited for it.
    bed.bound("probe").await;
    bed.waits("other").await;
    gate.open();
    bed.bound("decided").await;
    bed.waits("other").await;
    bed.delete("decided").await;
    assert_eq!(bed.bound("other").await, "n1");
    bed.check().await;
}
