//! Says on the node what became of its MIG configuration: the label, and an event where it failed.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::state::{MigState, MigStatus};
use crate::report::{CONTROLLER, cut};
use crate::state::Backoff;

/// The label that says what became of the one that chooses.
pub const STATE_LABEL: &str = "nvidia.com/mig.config.state";
/// Whose label it is. What is applied without it takes it away, and touches no other.
const MANAGER: &str = "gpu-scheduler-agent-mig";
/// How long the API server may take for a write.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes the newest status onto the node, until nobody tells any. What fails is tried again with growing pauses.
pub(super) async fn write(client: Client, node: &str, mut status: watch::Receiver<Option<MigStatus>>) {
    let nodes = Api::<Node>::all(client.clone());
    let (mut written, mut told) = (None, None);
    let (mut backoff, begun) = (Backoff::default(), Instant::now());
    loop {
        let now = status.borrow_and_update().clone();
        if told != now {
            tell_event(&client, node, now.as_ref()).await;
            told.clone_from(&now);
        }
        let state = now.map(|status| status.state);
        let mut due = None;
        if written != Some(state) {
            match tokio::time::timeout(PATIENCE, label(&nodes, node, state)).await {
                Ok(Ok(())) => {
                    written = Some(state);
                    backoff = Backoff::default();
                }
                failed => {
                    backoff.failed(begun.elapsed());
                    due = Some(begun + backoff.until());
                    let why = failed.map_or_else(
                        |_| "it does not answer".to_owned(),
                        |result| result.err().map(|error| error.to_string()).unwrap_or_default(),
                    );
                    warn!(node, why, "the API server did not take the label {STATE_LABEL}; it is tried again");
                }
            }
        }
        let later = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            () = later => {}
        }
    }
}

async fn label(nodes: &Api<Node>, node: &str, state: Option<MigState>) -> kube::Result<()> {
    let labels = match state {
        Some(state) => json!({STATE_LABEL: state.as_str()}),
        None => json!({}),
    };
    let patch = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}});
    nodes.patch_metadata(node, &PatchParams::apply(MANAGER).force(), &Patch::Apply(patch)).await?;
    Ok(())
}

/// An event that is not taken is given up: the log has it.
async fn tell_event(client: &Client, node: &str, status: Option<&MigStatus>) {
    let Some(MigStatus { state: MigState::Failed | MigState::Rebooting, reason: Some(reason) }) = status else {
        return;
    };
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.to_owned()),
        // As kubelet's events have it: tools look for those of a node under its name.
        uid: Some(node.to_owned()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason: "MIGConfigFailed".to_owned(),
        note: Some(cut(reason.clone())),
        action: "Repartition".to_owned(),
        secondary: None,
    };
    // A recorder that is kept takes what has another text for the same event again, and drops the text.
    let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(node.to_owned()) };
    let recorder = Recorder::new(client.clone(), reporter);
    if let Err(error) = recorder.publish(&event, &about).await {
        debug!(%error, node, "an event was not taken");
    }
}
