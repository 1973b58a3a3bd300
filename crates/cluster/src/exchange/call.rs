//! A request and its answer.

use gpu_scheduler_engine::model::{PodName, PodUid};
use http::{Method, StatusCode};
use kube::core::Status;
use serde_json::{Value, json};
use thiserror::Error;

/// A request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path of the object or subresource.
    pub path: String,
    /// Type of the body's content.
    pub content: &'static str,
    /// The body; null where there is none.
    pub body: Value,
}

impl Call {
    /// A read.
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, content: "application/json", body: Value::Null }
    }

    /// A change of a pod's status. The UID is a precondition: a pod of the same name that came later says nothing yet.
    pub fn status(pod: &PodName, uid: &PodUid, status: Value) -> Self {
        let body = json!({"metadata": {"uid": &*uid.0}, "status": status});
        let content = "application/strategic-merge-patch+json";
        Self { method: Method::PATCH, path: format!("{}/status", pod_path(pod)), content, body }
    }
}

/// An answer of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub code: StatusCode,
    /// What it says.
    pub body: Vec<u8>,
}

impl Answer {
    /// Why it refused, in its own words.
    pub fn why(&self) -> String {
        match serde_json::from_slice::<Status>(&self.body) {
            Ok(status) if !status.message.is_empty() => status.message,
            _ => format!("the API server answered {}", self.code),
        }
    }
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoAnswer {
    /// This replica does not lead any more; nothing was sent.
    #[error("this replica does not lead any more")]
    Deposed,
    /// It may have taken effect.
    #[error("{0}")]
    Unknown(String),
}

/// Path of a pod.
pub(crate) fn pod_path(pod: &PodName) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Whether an answer leaves open if the write took effect: throttled, timed out, or broken on the way.
pub(crate) fn says_nothing(code: StatusCode) -> bool {
    code.is_server_error() || matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}
