//! `/metrics` and the probes. Who may read is as with the scheduler: everybody on this machine, else whom the API server
//! lets `get` the path.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gpu_scheduler_cluster::serve::{Listen, serve_routes};
use tokio::task::JoinHandle;

use super::Metrics;

/// Whether the agent has looked at its node. A clone is another handle on the same.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Whether the last round found anything.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Listens and serves until `shutdown`. Returns the address and the task.
///
/// # Errors
/// As [`serve_routes`].
pub async fn serve(
    listen: impl Into<Listen>,
    metrics: Metrics,
    readiness: Readiness,
    client: Option<kube::Client>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let open = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(|| async { "ok" }))
        // DCGM exporter's name for it.
        .route("/health", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(readiness);
    let guarded = Router::new().route("/metrics", get(text)).fallback(nothing_here).with_state(metrics);
    serve_routes(listen, open, guarded, client, shutdown).await
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    if readiness.is_ready() {
        "ok".into_response()
    } else {
        let text = "the driver's library cannot be used; the agent's log says why\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

async fn text(State(metrics): State<Metrics>) -> Response {
    ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.render()).into_response()
}

async fn nothing_here() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here; there is /healthz, /livez, /readyz and /metrics\n").into_response()
}
