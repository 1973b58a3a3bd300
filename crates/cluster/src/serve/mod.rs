//! The server for health, metrics and questions, on kube-scheduler's paths.
//!
//! | path | says | who may |
//! |---|---|---|
//! | `/healthz`, `/livez`, `/readyz` | how the process is; `?verbose` lists the checks | everybody |
//! | `/metrics` | all metrics | allowed |
//! | `/configz` | the effective configuration | allowed |
//! | `/debug/pods/{namespace}/{name}` | why a pod is where it is, or waits | allowed |
//! | `/version` | what runs | allowed |
//!
//! *Allowed* is whoever's bearer token the API server knows and lets `get` the path as a non-resource URL. On a
//! loopback address it is everybody. A server that could not ask does not start.
//!
//! With a certificate all of it is HTTPS, else plain HTTP.

mod access;
mod health;
mod recent;
mod review;
mod tls;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use health::{Answer, Health, Probe};
pub use tls::{CertificateError, CertificateFiles};

use crate::metrics::Metrics;
use access::{Guard, guard};
use review::Reviewer;
use tls::{Certificate, TlsListener};

/// How long the scheduler may take for the answer to a question.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest time between two looks at the files of the certificate.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where to listen, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// What to serve HTTPS with; `None`: plain HTTP.
    pub certificate: Option<CertificateFiles>,
}

impl From<SocketAddr> for Listen {
    /// Plain HTTP.
    fn from(address: SocketAddr) -> Self {
        Self { address, certificate: None }
    }
}

/// Whoever can be asked about pods: the engine lives on a task of its own.
pub trait Ask: Send + Sync {
    /// Why the pod is where it is or waits, as JSON; `None` for one that is not known.
    fn explain(&self, namespace: &str, name: &str) -> BoxFuture<'_, Option<String>>;
}

/// What is served.
#[derive(Clone)]
struct Served {
    metrics: Metrics,
    health: Health,
    config_json: Arc<str>,
    ask: Arc<dyn Ask>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("health", &self.health).finish_non_exhaustive()
    }
}

/// Listens as `listen` says and serves until `shutdown`, then until the requests under way are answered. Returns the
/// address and the task, whose result is the server's.
///
/// # Errors
/// If the address cannot be had, if it is not a loopback address and there is no client to ask who may read, or if the
/// files of the certificate hold none.
pub async fn start(
    listen: impl Into<Listen>,
    metrics: Metrics,
    health: Health,
    config_json: String,
    ask: Arc<dyn Ask>,
    client: Option<kube::Client>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let served = Served { metrics, health, config_json: config_json.into(), ask };
    let (open, guarded) = routes(served);
    serve_routes(listen, open, guarded, client, shutdown).await
}

/// Serves `open` to everybody and `guarded` to whom the module's rule allows, until `shutdown`, then until the requests
/// under way are answered. What neither has is `guarded`'s to answer: nobody else learns what there is. Returns the address
/// and the task, whose result is the server's.
///
/// # Errors
/// If the address cannot be had, if it is not a loopback address and there is no client to ask who may read, or if the
/// files of the certificate hold none.
pub async fn serve_routes(
    listen: impl Into<Listen>,
    open: Router,
    guarded: Router,
    client: Option<kube::Client>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let Listen { address: listen, certificate } = listen.into();
    let rule = guard_for(listen, client)?;
    let certificate = certificate.map(|files| Certificate::load(files, LOOK_EVERY)).transpose();
    let certificate = certificate.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}; change bindAddress or stop who does"))
    })?;
    let address = listener.local_addr()?;
    let router = open.merge(guarded.layer(from_fn_with_state(rule, guard)));
    let task = match certificate {
        None => tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(shutdown).into_future()),
        Some(certificate) => {
            let listener = TlsListener::new(listener, certificate);
            tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(shutdown).into_future())
        }
    };
    Ok((address, task))
}

fn guard_for(listen: SocketAddr, client: Option<kube::Client>) -> io::Result<Guard> {
    if listen.ip().to_canonical().is_loopback() {
        return Ok(Guard::Loopback);
    }
    match client {
        Some(client) => Ok(Guard::Delegated(Arc::new(Reviewer::new(client)))),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "cannot serve on {listen}: others can reach it, and without an API server nobody says who may read; \
                 set bindAddress to 127.0.0.1:{}, or connect to a cluster",
                listen.port()
            ),
        )),
    }
}

/// What everybody may read, and what is guarded.
fn routes(served: Served) -> (Router, Router) {
    let open = Router::new()
        .route("/healthz", get(|served, query| probe(Probe::Health, served, query)))
        .route("/livez", get(|served, query| probe(Probe::Live, served, query)))
        .route("/readyz", get(|served, query| probe(Probe::Ready, served, query)));
    // What does not exist is guarded too: nobody learns here what does.
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/configz", get(configz))
        .route("/debug/pods/{namespace}/{name}", get(explain))
        .route("/version", get(version))
        .fallback(nothing_here);
    (open.with_state(served.clone()), guarded.with_state(served))
}

async fn probe(probe: Probe, State(served): State<Served>, RawQuery(query): RawQuery) -> Response {
    let answer = served.health.answer(probe);
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    // Kubernetes' components answer 500 here.
    let status = if answer.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, NO_SNIFF, answer.text(verbose)).into_response()
}

/// Texts with names in them must not be taken for pages.
const NO_SNIFF: [(HeaderName, &str); 1] = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];

async fn metrics(State(served): State<Served>) -> Response {
    ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], served.metrics.render()).into_response()
}

async fn configz(State(served): State<Served>) -> Response {
    json(served.config_json.to_string())
}

async fn explain(State(served): State<Served>, Path((namespace, name)): Path<(String, String)>) -> Response {
    match tokio::time::timeout(PATIENCE, served.ask.explain(&namespace, &name)).await {
        Ok(Some(text)) => json(text),
        Ok(None) => {
            let text = format!(
                "the scheduler knows no pod {name:?} in namespace {namespace:?}; pods that are finished or of other \
                 schedulers and not bound are not kept\n"
            );
            (StatusCode::NOT_FOUND, NO_SNIFF, text).into_response()
        }
        Err(_) => {
            let text = format!("the scheduler did not answer within {} s; /livez says more\n", PATIENCE.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn version() -> Json<serde_json::Value> {
    Json(serde_json::json!({
        "name": "gpu-scheduler",
        "version": env!("CARGO_PKG_VERSION"),
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

async fn nothing_here() -> Response {
    let text = "there is nothing here; there is /healthz, /livez, /readyz, /metrics, /configz, /version and \
                /debug/pods/NAMESPACE/NAME\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests;
