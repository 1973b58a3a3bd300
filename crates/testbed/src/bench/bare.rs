//! A loop that binds and decides nothing, with our program's rights and beside a watch of its own as every scheduler keeps
//! one: what the API server allows.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{TryStreamExt, stream};
use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::control_plane::{Access, ControlPlaneError};

/// Requests on their way at once.
const IN_FLIGHT: usize = 64;

/// Binds the pods to the nodes in turn. What its watch says is read and thrown away.
pub(super) async fn bind(access: &Access, pods: usize, nodes: usize) -> Result<(), ControlPlaneError> {
    let client = &access.client().await?;
    let watch = Request::get("/api/v1/pods?watch=true").body(Vec::new()).expect("a request of constant parts");
    let watch = client.request_stream(watch).await;
    let watch = watch.map_err(ControlPlaneError::request("could not watch pods".to_owned()))?;
    // Ends with this function.
    let mut reader = JoinSet::new();
    reader.spawn(async move { futures::io::copy(watch, &mut futures::io::sink()).await });
    let next = AtomicUsize::new(0);
    stream::iter((0..pods).map(Ok::<_, ControlPlaneError>))
        .try_for_each_concurrent(IN_FLIGHT, |n| {
            let node = next.fetch_add(1, Ordering::Relaxed) % nodes;
            async move {
                let body = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": format!("p{n}")},
                    "target": {"kind": "Node", "name": format!("node-{node}")},
                });
                let request = Request::post(format!("/api/v1/namespaces/default/pods/p{n}/binding"))
                    .header("content-type", "application/json")
                    .body(body.to_string().into_bytes())
                    .expect("a request of constant parts");
                let answer = client.request::<Value>(request).await;
                answer.map(drop).map_err(ControlPlaneError::request(format!("could not bind p{n}")))
            }
        })
        .await
}
