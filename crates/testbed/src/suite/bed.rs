//! The cluster that the specs run on.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::control_plane::wait::until;
use crate::control_plane::{ControlPlane, ControlPlaneError};
use crate::objects::{GpuModel, NodeObject};

/// Some specs choose two of them, and let pods choose among the rest.
const NODES: u8 = 4;

/// Before a spec that needs all nodes healthy, the suite waits a minute for a pod of each of these names on every node and
/// then goes on without. One pod may have all three.
const SYSTEM_PODS: &str = "kube-proxy-fluentd-elasticsearch-node-problem-detector";

/// Adds four alike nodes in two zones, and the pods that the suite looks for on them.
///
/// The pods are a DaemonSet's, so the scheduler that is judged places them: [`settle`] waits for that.
///
/// # Errors
///
/// A node does not get ready.
pub async fn furnish(cluster: &ControlPlane) -> Result<(), ControlPlaneError> {
    cluster.add_nodes((1..=NODES).map(node)).await?;
    let daemons = Api::namespaced(cluster.client(), "kube-system");
    let what = format!("could not create the DaemonSet {SYSTEM_PODS}");
    daemons.create(&PostParams::default(), &system_pods()).await.map_err(ControlPlaneError::request(what))?;
    Ok(())
}

/// Waits until the pods of [`furnish`] run: the scheduler schedules.
///
/// # Errors
///
/// They do not.
pub async fn settle(cluster: &ControlPlane) -> Result<(), ControlPlaneError> {
    let daemons = Api::<DaemonSet>::namespaced(cluster.client(), "kube-system");
    let ready = |set: &DaemonSet| set.status.as_ref().is_some_and(|status| status.number_ready == i32::from(NODES));
    until(&daemons, SYSTEM_PODS, "a pod of the DaemonSet to run on every node", ready).await.map(drop)
}

fn node(number: u8) -> Node {
    NodeObject::new(&format!("node-{number}"))
        .gpus(0, GpuModel::T4)
        // Specs about host ports take the nodes' addresses for different.
        .address(&format!("127.0.1.{number}"))
        .zone(["zone-a", "zone-b"][usize::from(number) % 2])
        // Small, so that specs which fill a resource need few pods.
        .resource("cpu", "8")
        .resource("memory", "32Gi")
        .resource("ephemeral-storage", "100Gi")
        .build()
}

fn system_pods() -> DaemonSet {
    let labels = json!({"name": "system"});
    serde_json::from_value(json!({
        "metadata": {"name": SYSTEM_PODS},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    // Never preempted, and back at once where a spec taints their node.
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": "pause"}],
                },
            },
        },
    }))
    .expect("it is a DaemonSet")
}
