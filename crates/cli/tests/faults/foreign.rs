//! Others bind what we were about to bind, or fill what we were about to fill.

use gpu_scheduler_testbed::checker::{Rules, Violation};
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::Proxy;
use serde_json::json;

use crate::bed::Bed;
use crate::burst;
use crate::deletions::held;

/// Binds a pod as another scheduler does: without a record.
async fn bind(bed: &Bed, pod: &str, node: &str) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
                         "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/binding"))
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .expect("a request");
    bed.client().request_text(request).await.expect("it is bound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_somebody_else_binds_first_stays_there_and_frees_what_it_was_to_have() {
    // Field case 20: ours notices the foreign bind, and unbinds nothing.
    let bed = burst::bed(2, Rules::default()).await;
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let gates = [held(&proxy, "a"), held(&proxy, "b")];
    let _scheduler = bed.scheduler_through("s", &proxy);
    // One on each node; the other one binds both to the first.
    bed.cluster.add_pods(["a", "b"].map(|name| PodObject::new(name).gpus(5).build())).await.expect("pods");
    for gate in &gates {
        gate.reached().await;
    }
    bind(&bed, "a", "n1").await;
    bind(&bed, "b", "n1").await;
    for gate in &gates {
        gate.open();
    }
    // All of n2 is free, and nothing of n1 is: ten cards are used of its eight.
    bed.cluster.add_pods([PodObject::new("all").gpus(8).build()]).await.expect("a pod");
    assert_eq!(bed.bound("all").await, "n2");
    bed.cluster.add_pods([PodObject::new("more").gpus(1).build()]).await.expect("a pod");
    bed.waits("more").await;
    assert_eq!((bed.bound("a").await, bed.bound("b").await), ("n1".to_owned(), "n1".to_owned()));
    // What the other one does is wrong, and all that is.
    let without = |pod: &str| Violation::BoundWithoutRecord { pod: pod.to_owned() };
    assert_eq!(bed.checker.verdict().await.violations, [without("a"), without("b")]);
}
