//! The writes that decide: binds, and what is needed to be sure of them. None goes out with the fence closed.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, core::Status};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::fence::Fence;
use crate::allocation;
use crate::driver::{BindAnswer, BindOrder, ReadAnswer};
use gpu_scheduler_engine::model::{PodName, PodUid};

/// How long a request may take. What has no answer by then is unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes to the API server, if its replica may.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    fence: Fence,
}

/// An answer of the API server.
pub(super) struct Answer {
    pub code: StatusCode,
    body: Vec<u8>,
}

impl Answer {
    /// What it says.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
    /// Why it refused, in its own words.
    pub fn why(&self) -> String {
        match serde_json::from_slice::<Status>(&self.body) {
            Ok(status) if !status.message.is_empty() => status.message,
            _ => format!("the API server answered {}", self.code),
        }
    }
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// This replica does not lead any more; nothing was sent.
    #[error("this replica does not lead any more")]
    Deposed,
    /// It may have taken effect.
    #[error("{0}")]
    Unknown(String),
}

#[derive(Deserialize)]
struct Located {
    metadata: LocatedMeta,
    #[serde(default)]
    spec: LocatedSpec,
}

#[derive(Deserialize)]
struct LocatedMeta {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LocatedSpec {
    node_name: String,
}

impl Writer {
    /// Writes through `client`, which must not retry by itself, while `fence` is open.
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// Binds: node name and record are one write, and the UID its precondition.
    pub async fn bind(&self, order: &BindOrder) -> BindAnswer {
        let mut metadata = json!({"name": &*order.pod.name, "namespace": &*order.pod.namespace, "uid": &*order.uid.0});
        if let Some(record) = &order.record {
            metadata["annotations"] = json!({ (allocation::ANNOTATION): record });
        }
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": &*order.node},
        });
        match self.send(Method::POST, &format!("{}/binding", path(&order.pod)), "application/json", &binding).await {
            Ok(answer) if answer.code.is_success() => BindAnswer::Done,
            Ok(answer) if answer.code == StatusCode::CONFLICT => BindAnswer::Conflict(answer.why()),
            Ok(answer) if says_nothing(answer.code) => BindAnswer::Unknown(answer.why()),
            Ok(answer) => BindAnswer::Refused(answer.why()),
            Err(NoAnswer::Deposed) => BindAnswer::Deposed,
            Err(NoAnswer::Unknown(why)) => BindAnswer::Unknown(why),
        }
    }

    /// Where a pod is, by a consistent read.
    pub async fn read_back(&self, pod: &PodName, uid: &PodUid) -> ReadAnswer {
        let answer = match self.send(Method::GET, &path(pod), "application/json", &Value::Null).await {
            Ok(answer) => answer,
            Err(error) => return ReadAnswer::Unknown(error.to_string()),
        };
        match (answer.code, serde_json::from_slice::<Located>(&answer.body)) {
            (StatusCode::NOT_FOUND, _) => ReadAnswer::Gone,
            (StatusCode::OK, Ok(found)) if found.metadata.uid != *uid.0 => ReadAnswer::Gone,
            (StatusCode::OK, Ok(found)) if found.spec.node_name.is_empty() => ReadAnswer::Unbound,
            (StatusCode::OK, Ok(found)) => ReadAnswer::On(found.spec.node_name),
            (StatusCode::OK, Err(error)) => ReadAnswer::Unknown(error.to_string()),
            _ => ReadAnswer::Unknown(answer.why()),
        }
    }

    /// Sends one request, unless the fence is closed at this moment.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Answer, NoAnswer> {
        let unknown = |error: &dyn std::fmt::Display| NoAnswer::Unknown(error.to_string());
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content)
            .body(Body::from(bytes))
            .map_err(|e| unknown(&e))?;
        if !self.fence.is_open() {
            return Err(NoAnswer::Deposed);
        }
        let exchange = async {
            let response = self.client.send(request).await.map_err(|e| unknown(&e))?;
            let code = response.status();
            let body = response.into_body().collect().await.map_err(|e| unknown(&e))?.to_bytes().to_vec();
            Ok(Answer { code, body })
        };
        // With the term ends the request: its connection is closed, and what has not arrived does not arrive.
        let patience = PATIENCE.min(self.fence.left());
        match timeout(patience, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::Unknown(format!("no answer within {patience:?}"))),
        }
    }
}

/// Path of a pod.
pub(super) fn path(pod: &PodName) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Whether an answer leaves open if the write took effect: throttled, timed out, or broken on the way.
pub(super) fn says_nothing(code: StatusCode) -> bool {
    code.is_server_error() || matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}
