//! The writer against an API server that answers as the real one does where it matters: versions, missing things, silence.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::movement::tests::report;
use super::*;
use crate::labels::Labels;
use crate::metrics::{HostnameLabel, Metrics, MetricsOptions};

/// What the server has, and how it behaves.
#[derive(Debug, Default)]
struct Server {
    /// Whether the resource definition is there.
    defined: bool,
    /// Whether it answers at all.
    reachable: bool,
    state: Option<Value>,
    /// The UID of what the state belongs to.
    owner: String,
    version: u64,
    node: Value,
    /// Seconds since the start, and what was asked for.
    requests: Vec<(u64, String)>,
}

type Shared = Arc<Mutex<Server>>;

fn server() -> Shared {
    Arc::new(Mutex::new(Server { defined: true, reachable: true, ..Server::default() }))
}

fn answer(code: StatusCode, body: Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn failure(code: StatusCode) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "message": "no", "reason": "No"});
    answer(code, body)
}

impl Server {
    fn handle(&mut self, second: u64, method: &Method, path: &str, body: &Value) -> Response<Body> {
        let short = path.rsplit("/gpunodestates/").next().unwrap_or(path).trim_start_matches("/api/v1/");
        self.requests.push((second, format!("{method} {short}")));
        if !self.reachable {
            return failure(StatusCode::INTERNAL_SERVER_ERROR);
        }
        if path.starts_with("/api/v1/nodes/") {
            for key in ["labels", "annotations"] {
                if let Some(applied) = body["metadata"].get(key) {
                    self.node[key] = applied.clone();
                }
            }
            return answer(
                StatusCode::OK,
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "n1", "uid": "uid-n1"}}),
            );
        }
        if !self.defined || (self.state.is_none() && (path.ends_with("/status") || method == Method::GET)) {
            return failure(StatusCode::NOT_FOUND);
        }
        if let Some(owner) = body["metadata"]["ownerReferences"][0]["uid"].as_str() {
            self.owner = owner.to_owned();
        }
        if method == Method::PATCH {
            let asked = body["metadata"]["resourceVersion"].as_str();
            if asked.is_some_and(|asked| asked != self.version.to_string()) {
                return failure(StatusCode::CONFLICT);
            }
            let status =
                body.get("status").cloned().or_else(|| self.state.take().map(|mut state| state["status"].take()));
            self.put(status);
        }
        answer(StatusCode::OK, self.state.clone().unwrap_or_default())
    }

    fn put(&mut self, status: Option<Value>) {
        self.version += 1;
        let metadata = json!({"name": "n1", "resourceVersion": self.version.to_string()});
        self.state = Some(
            json!({"apiVersion": "gpu-scheduler.io/v1alpha1", "kind": "GPUNodeState", "metadata": metadata, "status": status}),
        );
    }

    /// Another agent writes.
    fn other_writes(&mut self, instance: &str) {
        self.put(Some(json!({"agent": {"instance": instance}})));
    }
}

/// A running writer, and what it is told.
struct Running {
    server: Shared,
    desired: watch::Sender<Option<Arc<Desired>>>,
    metrics: Metrics,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(server: Shared) -> Self {
        let (begun, shared) = (Instant::now(), server.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let shared = shared.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes: Bytes = body.collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let mut server = shared.lock().unwrap();
                Ok::<_, std::convert::Infallible>(server.handle(
                    begun.elapsed().as_secs(),
                    &parts.method,
                    parts.uri.path(),
                    &body,
                ))
            }
        });
        let client = kube::Client::new(service, "default");
        let metrics = Metrics::new(MetricsOptions { node: "n1".to_owned(), hostname_label: HostnameLabel::Capital });
        let (desired, newest) = watch::channel(None);
        let writer = Writer::new(client, "n1", metrics.clone());
        let task = tokio::spawn(run(writer, newest, std::future::pending()));
        Self { server, desired, metrics, task }
    }

    fn say(&self, used: u64, label: &str) {
        let mut status = report();
        status.used_memory_mib = used;
        status.devices[0].used_memory_mib = Some(used);
        let labels = Labels::from([("nvidia.com/gpu.count".to_owned(), label.to_owned())]);
        self.desired.send_replace(Some(Arc::new(Desired { status, labels, no_timestamp: true })));
    }

    /// Lets this many seconds pass; what was asked for in them.
    async fn pass(&self, seconds: u64) -> Vec<(u64, String)> {
        tokio::time::advance(Duration::ZERO).await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut self.server.lock().unwrap().requests)
    }

    fn used(&self) -> Option<u64> {
        self.server.lock().unwrap().state.as_ref()?["status"]["usedMemoryMiB"].as_u64()
    }

    fn others(&self) -> String {
        let text = self.metrics.render();
        text.lines().find(|line| line.starts_with("gpu_scheduler_agent_other_agents ")).unwrap().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn expected(requests: &[(u64, &str)]) -> Vec<(u64, String)> {
    requests.iter().map(|(second, request)| (*second, (*request).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn labels_state_and_annotations_are_written_and_then_rarely() {
    let running = Running::start(server());
    assert_eq!(running.pass(5).await, [], "there is nothing to say yet");
    running.say(10_000, "1");
    let first =
        [(5, "PATCH nodes/n1"), (5, "GET nodes/n1"), (5, "PATCH n1"), (5, "PATCH n1/status"), (15, "PATCH nodes/n1")];
    assert_eq!(running.pass(100).await, expected(&first));
    let node = running.server.lock().unwrap().node.clone();
    assert_eq!(running.server.lock().unwrap().owner, "uid-n1", "the state goes with its node");
    assert_eq!(node["labels"], json!({"nvidia.com/gpu.count": "1"}));
    assert_eq!(node["annotations"]["gpu-scheduler/memory-used"], "10000");
    assert_eq!(node["annotations"]["gpu-scheduler/memory-total"], "80000");
    assert!(node["annotations"]["gpu-scheduler/updated-at"].as_str().unwrap().ends_with('Z'));
    running.say(10_001, "1");
    assert_eq!(running.pass(199).await, [], "nothing moved");
    assert_eq!(running.pass(2).await, expected(&[(305, "PATCH n1/status")]), "a heartbeat");
    running.say(10_001, "2");
    assert_eq!(running.pass(1).await, expected(&[(306, "PATCH nodes/n1")]), "labels at once");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_waited_out_and_gets_the_newest() {
    let running = Running::start(server());
    running.say(10_000, "1");
    running.pass(20).await;
    running.server.lock().unwrap().reachable = false;
    for minute in 1..=10 {
        running.say(10_000 + minute * 1000, "1");
        let tries = running.pass(60).await;
        assert!(!tries.is_empty() && tries.len() <= 20, "{tries:?}");
    }
    running.server.lock().unwrap().reachable = true;
    let then = running.pass(75).await;
    assert_eq!(running.used(), Some(20_000));
    assert_eq!(then.iter().filter(|(_, request)| request == "PATCH n1/status").count(), 1, "no queue: {then:?}");
    let text = running.metrics.render();
    assert!(text.contains("gpu_scheduler_agent_api_writes_total{kind=\"gpunodestate\",result=\"failed\"}"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_waited_for_while_annotations_go_on() {
    let running = Running::start(server());
    running.server.lock().unwrap().defined = false;
    running.say(10_000, "1");
    running.pass(60).await;
    assert_eq!(running.server.lock().unwrap().node["annotations"]["gpu-scheduler/memory-used"], "10000");
    assert_eq!(running.used(), None);
    running.server.lock().unwrap().defined = true;
    running.pass(61).await;
    assert_eq!(running.used(), Some(10_000));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_is_made_again() {
    let running = Running::start(server());
    running.say(10_000, "1");
    running.pass(20).await;
    running.server.lock().unwrap().state = None;
    running.say(20_000, "1");
    running.pass(20).await;
    assert_eq!(running.used(), Some(20_000));
}

#[tokio::test(start_paused = true)]
async fn another_agent_is_noticed_and_the_one_before_a_restart_is_not() {
    let running = Running::start(server());
    running.server.lock().unwrap().other_writes("before the restart");
    running.say(10_000, "1");
    running.pass(20).await;
    assert_eq!(running.others(), "gpu_scheduler_agent_other_agents 0");
    running.server.lock().unwrap().other_writes("another");
    running.say(20_000, "1");
    let requests = running.pass(8).await;
    let writes = ["PATCH n1/status", "GET n1", "PATCH n1/status"];
    assert_eq!(requests.iter().map(|(_, request)| request.as_str()).collect::<Vec<_>>(), writes);
    assert_eq!((running.others().as_str(), running.used()), ("gpu_scheduler_agent_other_agents 1", Some(20_000)));
}
