//! Pods that wait: what they say, that they say it once, and what makes them go.

use std::time::Duration;

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::bed::{Bed, node_of, waiting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_pod_says_why_once_and_goes_as_soon_as_there_is_room() {
    let bed = Bed::start(1).await;
    let scheduler = bed.scheduler("a");
    let full = (0..4).map(|i| PodObject::new(&format!("full-{i}")).gpus(2).build());
    bed.cluster.add_pods(full).await.expect("pods");
    bed.bound_pods(4).await;
    bed.cluster.add_pods([PodObject::new("late").limit("gpu-scheduler/memory", "8Gi").build()]).await.expect("a pod");
    let why = bed.waits("late").await;
    assert!(why.starts_with("0/1 nodes are available: "), "{why}");
    let written = bed.pods().get("late").await.expect("it is there");
    // A restart, and pods that come and go, change nothing of what it says: nothing is written.
    assert!(scheduler.stop());
    let _again = bed.scheduler("b");
    bed.cluster.add_pods([PodObject::new("plain").build()]).await.expect("a pod");
    bed.bound("plain").await;
    bed.cluster.add_pods([PodObject::new("also").limit("gpu-scheduler/memory", "8Gi").build()]).await.expect("a pod");
    assert_eq!(bed.waits("also").await, why, "the scheduler has tried pods of this kind again");
    let now = bed.pods().get("late").await.expect("it is there");
    assert_eq!(now.resource_version(), written.resource_version(), "identical repeats cost no write");
    // Field case 21: the freed card is used at once.
    let freed = Instant::now();
    bed.delete("full-0").await;
    bed.bound("late").await;
    let took = freed.elapsed();
    println!("from the release of a card to the bind of a pod that waited for it: {took:?}");
    assert!(took < Duration::from_secs(10), "woken by the release, not by a timer of minutes: {took:?}");
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_come_are_cordoned_and_go() {
    let bed = Bed::start(1).await;
    let _scheduler = bed.scheduler("a");
    let nodes = Api::<Node>::all(bed.client());
    let cordon = async |on: bool| {
        let patch = json!({"spec": {"unschedulable": on}});
        nodes.patch("n1", &PatchParams::default(), &Patch::Merge(patch)).await.expect("a cordon");
    };
    cordon(true).await;
    // The cordon must have been seen: a pod that could only go there says so.
    bed.cluster.add_pods([PodObject::new("probe").gpus(8).build()]).await.expect("a pod");
    let why = |p: &Pod| waiting(p).is_some_and(|w| w.contains("1 node(s) were unschedulable"));
    let seen = until(&bed.pods(), "probe", "a pod to name the cordon", |p| why(p) || node_of(p).is_some())
        .await
        .expect("it waits");
    if node_of(&seen).is_some() {
        // Bound before the cordon was seen: as good a start.
        bed.delete("probe").await;
        bed.cluster.add_pods([PodObject::new("second").gpus(8).build()]).await.expect("a pod");
        until(&bed.pods(), "second", "a pod to name the cordon", why).await.expect("it waits");
    }
    bed.cluster.add_nodes([NodeObject::new("n2").build()]).await.expect("a node");
    let pod = bed
        .all_pods()
        .await
        .into_iter()
        .find(|p| node_of(p).is_none() || node_of(p) == Some("n2"))
        .expect("a pod")
        .name_any();
    assert_eq!(bed.bound(&pod).await, "n2", "a node that comes is used at once");
    bed.cluster.add_pods([PodObject::new("next").gpus(1).build()]).await.expect("a pod");
    bed.waits("next").await;
    cordon(false).await;
    assert_eq!(bed.bound("next").await, "n1");
    bed.delete("next").await;
    nodes.delete("n1", &Default::default()).await.expect("a node can be deleted");
    bed.cluster.add_pods([PodObject::new("nowhere").gpus(1).build()]).await.expect("a pod");
    let what = "a pod to see that the node is gone";
    until(&bed.pods(), "nowhere", what, |p| waiting(p).is_some_and(|w| w.starts_with("0/1 nodes")))
        .await
        .expect("one node is left");
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_that_is_refused_goes_back_to_the_queue_and_blocks_nobody() {
    // Field case 27: a pod whose bind is always refused backs off and cannot win every cycle.
    let bed = Bed::start(1).await;
    let policies = Api::<ValidatingAdmissionPolicy>::all(bed.client());
    let policy = serde_json::from_value(json!({
        "metadata": {"name": "no-bind"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                                    "resources": ["pods/binding"]}]},
            "validations": [{"expression": "object.metadata.name != 'refused'", "message": "not this one"}],
        },
    }))
    .expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("a policy");
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(bed.client());
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "no-bind"}, "spec": {"policyName": "no-bind", "validationActions": ["Deny"]},
    }))
    .expect("a binding");
    bindings.create(&PostParams::default(), &binding).await.expect("a binding");
    in_force(&bed).await;
    let _scheduler = bed.scheduler("a");
    bed.cluster.add_pods([PodObject::new("refused").gpus(8).build()]).await.expect("a pod");
    let why = bed.waits("refused").await;
    assert!(why.contains("not this one"), "{why}");
    let condition =
        bed.pods().get("refused").await.expect("it is there").status.and_then(|s| s.conditions).unwrap_or_default();
    assert_eq!(
        condition.iter().find(|c| c.type_ == "PodScheduled").and_then(|c| c.reason.as_deref()),
        Some("SchedulerError")
    );
    // What it was given is free again, and others get it.
    bed.cluster.add_pods((0..4).map(|i| PodObject::new(&format!("p{i}")).gpus(1).build())).await.expect("pods");
    bed.bound_pods(4).await;
    for i in 0..4 {
        bed.delete(&format!("p{i}")).await;
    }
    bindings.delete("no-bind", &Default::default()).await.expect("it can be deleted");
    assert_eq!(bed.bound("refused").await, "n1", "it was tried again");
    bed.check().await;
}

/// Waits until the policy refuses a bind: the API server takes a moment to see it.
async fn in_force(bed: &Bed) {
    bed.cluster.add_pods([PodObject::new("refused").scheduler("nobody").build()]).await.expect("a pod");
    let probe = async {
        loop {
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "refused"},
                                 "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}});
            let request = http::Request::post("/api/v1/namespaces/default/pods/refused/binding?dryRun=All")
                .header("content-type", "application/json")
                .body(binding.to_string().into_bytes())
                .expect("a request");
            match bed.client().request_text(request).await {
                Err(kube::Error::Api(status)) if status.message.contains("not this one") => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(gpu_scheduler_testbed::control_plane::wait::PATIENCE, probe)
        .await
        .expect("the policy is in force");
    bed.delete("refused").await;
}
