//! Sends requests to the API server. None goes out with the fence closed.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::fence::Fence;
use crate::driver::{BindAnswer, BindOrder, ReadAnswer};
use crate::exchange::{Answer, Call, NoAnswer, bind_answer, bind_call, read_answer, read_call};
use gpu_scheduler_engine::model::{PodName, PodUid};

/// How long a request may take. What has no answer by then is unknown.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Writes to the API server, if its replica may.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    fence: Fence,
}

impl Writer {
    /// Writes through `client`, which must not retry by itself, while `fence` is open.
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// Binds: node name and record are one write, and the UID its precondition.
    pub async fn bind(&self, order: &BindOrder) -> BindAnswer {
        bind_answer(self.send(&bind_call(order)).await)
    }

    /// Where a pod is, by a consistent read.
    pub async fn read_back(&self, pod: &PodName, uid: &PodUid) -> ReadAnswer {
        read_answer(uid, self.send(&read_call(pod)).await)
    }

    /// Sends one request, unless the fence is closed at this moment.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, NoAnswer> {
        let unknown = |error: &dyn std::fmt::Display| NoAnswer::Unknown(error.to_string());
        let bytes = if call.body.is_null() { Vec::new() } else { call.body.to_string().into_bytes() };
        let request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(http::header::CONTENT_TYPE, call.content)
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
