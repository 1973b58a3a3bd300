//! A way to the API server that loses, delays and refuses, on demand.
//!
//! It speaks plain HTTP on 127.0.0.1 and passes requests on with the caller's own credentials, so what a caller may do
//! stays the same.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::control_plane::{Access, ControlPlaneError};

/// Largest request that is passed on.
const LARGEST: usize = 4 << 20;

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is answered with this status and goes no further.
    Refuse(StatusCode),
    /// It takes effect, and its answer is lost: this status is what the caller sees.
    Lose(StatusCode),
    /// It takes effect, and its answer breaks off in the middle.
    Break,
    /// It goes on once the gate is opened, whether its caller still waits or not.
    Hold(Gate),
}

/// Something that is shut until it is opened.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<(usize, bool)>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new((0, false)))
    }
}

impl Gate {
    /// Opens it for good.
    pub fn open(&self) {
        self.0.send_modify(|(_, open)| *open = true);
    }

    /// Waits until somebody stands before it.
    pub async fn reached(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|(waiting, _)| *waiting > 0).await;
    }

    async fn pass(&self) {
        self.0.send_modify(|(waiting, _)| *waiting += 1);
        let _ = self.0.subscribe().wait_for(|(_, open)| *open).await;
    }
}

/// Which requests, how many of them, and what happens to them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The method.
    pub method: Method,
    /// What the path contains.
    pub path: String,
    /// How many more.
    pub times: usize,
    /// What happens.
    pub fault: Fault,
}

#[derive(Clone)]
struct Way {
    upstream: Client,
    rules: Arc<Mutex<Vec<Rule>>>,
    /// How often all answers under way were cut off.
    cuts: watch::Sender<u64>,
    /// How many faults happened.
    faults: watch::Sender<usize>,
}

/// A running proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    rules: Arc<Mutex<Vec<Rule>>>,
    cuts: watch::Sender<u64>,
    faults: watch::Sender<usize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts one before the API server that `access` leads to.
    ///
    /// # Errors
    ///
    /// No port, or no client.
    pub async fn start(access: &Access) -> Result<Self, ControlPlaneError> {
        let mut config = access.config().await?;
        // The caller's credentials are passed on, not ours; and what failed is for the caller to repeat.
        config.auth_info = kube::config::AuthInfo::default();
        config.default_retry = false;
        let upstream =
            Client::try_from(config).map_err(ControlPlaneError::request("could not make the proxy's client"))?;
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let bound = listener.and_then(|l| l.local_addr().map(|address| (l, address)));
        let (listener, address) = bound.map_err(ControlPlaneError::system("could not listen for the proxy"))?;
        let rules = Arc::<Mutex<Vec<Rule>>>::default();
        let (cuts, faults) = (watch::Sender::new(0), watch::Sender::new(0));
        let way = Way { upstream, rules: rules.clone(), cuts: cuts.clone(), faults: faults.clone() };
        let app = Router::new().fallback(pass).with_state(way);
        let task = tokio::spawn(async move {
            // It ends with its task.
            let _: io::Result<()> = axum::serve(listener, app).await;
        });
        Ok(Self { url: format!("http://{address}"), rules, cuts, faults, task })
    }

    /// The same user's access, through this proxy.
    #[must_use]
    pub fn access(&self, of: &Access) -> Access {
        of.through(&self.url)
    }

    /// From now on, until its times are used up.
    pub fn add(&self, rule: Rule) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Takes all rules back, used up or not.
    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Cuts every answer that is under way, and so every watch, as a broken connection does. Requests from now on pass.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Waits until so many faults have happened, from the start on.
    pub async fn happened(&self, count: usize) {
        // The sender lives as long as `self`.
        let _ = self.faults.subscribe().wait_for(|faults| *faults >= count).await;
    }

    /// Rules that were not used up.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|r| r.times > 0).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Way {
    fn fault(&self, method: &Method, path: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = rules.iter_mut().find(|r| r.times > 0 && r.method == method && path.contains(&r.path))?;
        rule.times -= 1;
        self.faults.send_modify(|faults| *faults += 1);
        Some(rule.fault.clone())
    }

    /// The same answer, but it breaks off at the next cut.
    fn breakable(&self, body: Body) -> Body {
        let state = Some((body.into_data_stream(), self.cuts.subscribe()));
        Body::from_stream(stream::unfold(state, |state| async {
            let (mut parts, mut cuts) = state?;
            tokio::select! {
                part = parts.next() => part.map(|part| (part.map_err(io::Error::other), Some((parts, cuts)))),
                Ok(()) = cuts.changed() => Some((Err(broken()), None)),
            }
        }))
    }

    async fn forward(&self, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let mut request = axum::http::Request::builder().method(method).uri(path);
        for name in [header::AUTHORIZATION, header::CONTENT_TYPE, header::ACCEPT] {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let Ok(request) = request.body(kube::client::Body::from(body.to_vec())) else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        match self.upstream.send(request).await {
            Ok(response) => response.map(|body| self.breakable(Body::new(body))),
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    }
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

async fn pass(State(way): State<Way>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let fault = way.fault(&parts.method, parts.uri.path());
    let held = if let Some(Fault::Hold(gate)) = &fault { Some(gate.clone()) } else { None };
    let answer = match fault {
        Some(Fault::Refuse(status)) => return status.into_response(),
        Some(Fault::Lose(status)) => Some(status.into_response()),
        Some(Fault::Break) => {
            let nothing = stream::once(async { Err::<Bytes, io::Error>(broken()) });
            Some(Body::from_stream(nothing).into_response())
        }
        Some(Fault::Hold(_)) | None => None,
    };
    // On a task of its own: what is on its way arrives, even if its sender has hung up.
    let forwarded = tokio::spawn(async move {
        if let Some(gate) = held {
            gate.pass().await;
        }
        way.forward(parts.method, parts.uri, parts.headers, body).await
    });
    match (forwarded.await, answer) {
        (Ok(_), Some(instead)) => instead,
        (Ok(response), None) => response,
        (Err(error), _) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
