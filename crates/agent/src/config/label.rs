//! The node's label that chooses a file, followed.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as follow};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tracing::warn;

use super::select::LABEL;

/// The label of `node` now.
///
/// # Errors
/// If the API server does not tell.
pub async fn read_label(client: &Client, node: &str) -> kube::Result<Option<String>> {
    read_label_named(client, node, LABEL).await
}

/// The label `name` of `node` now.
///
/// # Errors
/// If the API server does not tell.
pub async fn read_label_named(client: &Client, node: &str, name: &str) -> kube::Result<Option<String>> {
    let node = Api::<Node>::all(client.clone()).get_metadata(node).await?;
    Ok(node.labels().get(name).cloned())
}

/// Follows the label of `node` until nobody listens.
pub async fn watch_label(client: Client, node: &str, label: watch::Sender<Option<String>>) {
    watch_label_named(client, node, LABEL, label).await;
}

/// Follows the label `name` of `node` until nobody listens.
pub async fn watch_label_named(client: Client, node: &str, name: &str, label: watch::Sender<Option<String>>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let mut events = Box::pin(follow(Api::<PartialObjectMeta<Node>>::all(client), config).default_backoff());
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = label.closed() => return,
        };
        match event {
            Some(Ok(Event::Apply(node) | Event::InitApply(node))) => {
                let now = node.labels().get(name).cloned();
                label.send_if_modified(|label| std::mem::replace(label, now.clone()) != now);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => warn!(%error, "the watch of this node's label {name} was interrupted and goes on"),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_label_of_this_node_is_followed() {
        let node = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": "n1", "resourceVersion": "1", "labels": {"nvidia.com/device-plugin.config": "a100"}}});
        let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "1"}, "items": [node]});
        let (client, mut requests) = crate::fixtures::api::server(&list);
        let (sender, mut label) = watch::channel(None);
        let watching = tokio::spawn(async move { watch_label(client, "n1", sender).await });
        label.changed().await.unwrap();
        assert_eq!(label.borrow().as_deref(), Some("a100"));
        let (_, path, _) = requests.recv().await.unwrap();
        assert!(path.contains("fieldSelector=metadata.name%3Dn1"), "{path}");
        drop(label);
        watching.await.unwrap();
        let (client, _requests) = crate::fixtures::api::server(&node);
        assert_eq!(read_label(&client, "n1").await.unwrap().as_deref(), Some("a100"));
    }
}
