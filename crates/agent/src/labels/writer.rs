//! Writes the labels onto the node.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::Labels;

/// Whose labels they are. What is applied without a label that was applied before takes it away, and touches no other.
const MANAGER: &str = "gpu-scheduler-agent-labels";

/// Makes these the labels of ours on the node, in place of those of before.
///
/// # Errors
/// The API server's. A label that somebody else set as well becomes ours.
pub async fn write(nodes: &Api<Node>, node: &str, labels: &Labels) -> Result<(), kube::Error> {
    let patch = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}});
    nodes.patch_metadata(node, &PatchParams::apply(MANAGER).force(), &Patch::Apply(patch)).await?;
    Ok(())
}
