use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Json as Body;
use axum::routing::post;
use kube::client::Body as ClientBody;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;

/// Knows one pod; never answers about the pod `stuck`.
struct OnePod;

impl Ask for OnePod {
    fn explain(&self, namespace: &str, name: &str) -> BoxFuture<'_, Option<String>> {
        let (known, stuck) = ((namespace, name) == ("default", "a"), name == "stuck");
        Box::pin(async move {
            if stuck {
                std::future::pending::<()>().await;
            }
            known.then(|| r#"{"phase":"Pending"}"#.to_owned())
        })
    }
}

/// An API server that knows the tokens `reader` (may get metrics), `stranger` (may get nothing).
#[derive(Clone, Default)]
struct ApiServer {
    asked: Arc<AtomicUsize>,
}

impl ApiServer {
    async fn tokens(State(server): State<Self>, Body(mut review): Body<Value>) -> Body<Value> {
        server.asked.fetch_add(1, Ordering::SeqCst);
        let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
        let known = ["reader", "stranger"].contains(&token.as_str());
        review["status"] = match known {
            true => json!({"authenticated": true, "user": {"username": token, "groups": ["g"], "uid": "u"}}),
            // Some authenticators name a user and still say no.
            false => json!({"authenticated": false, "user": {"username": "reader"}, "error": "invalid"}),
        };
        Body(review)
    }

    async fn access(Body(mut review): Body<Value>) -> Body<Value> {
        let spec = &review["spec"];
        let asks = &spec["nonResourceAttributes"];
        let path = asks["path"].as_str().unwrap_or_default();
        let open = path == "/metrics" || path.starts_with("/debug/pods/default/");
        let allowed = spec["user"] == "reader" && spec["groups"] == json!(["g"]) && asks["verb"] == "get" && open;
        review["status"] = json!({ "allowed": allowed });
        Body(review)
    }

    async fn start(&self) -> kube::Client {
        let router = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(Self::tokens))
            .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(Self::access))
            .with_state(self.clone());
        client(listen_with(router).await)
    }
}

async fn listen_with(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// A client without retries; it serves as a plain HTTP client too.
fn client(address: SocketAddr) -> kube::Client {
    let mut config = kube::Config::new(format!("http://127.0.0.1:{}", address.port()).parse().unwrap());
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

fn health() -> Health {
    Health::new(Duration::from_secs(15))
}

async fn start_on(listen: &str, api: Option<kube::Client>) -> (kube::Client, Health) {
    let health = health();
    let (address, _) = start(
        listen.parse::<SocketAddr>().unwrap(),
        Metrics::new(),
        health.clone(),
        r#"{"kind":"SchedulerConfiguration"}"#.to_owned(),
        Arc::new(OnePod),
        api,
        std::future::pending(),
    )
    .await
    .unwrap();
    (client(address), health)
}

struct Reply {
    status: u16,
    kind: String,
    text: String,
}

async fn fetch(client: &kube::Client, path: &str, token: Option<&str>) -> Reply {
    let mut request = http::Request::get(path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let response = client.send(request.body(ClientBody::empty()).unwrap()).await.unwrap();
    let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    Reply { status, kind: kind.unwrap_or_default(), text: String::from_utf8(bytes.to_vec()).unwrap() }
}

#[tokio::test]
async fn health_follows_the_state() {
    let (client, health) = start_on("127.0.0.1:0", None).await;
    assert_eq!(fetch(&client, "/livez", None).await.text, "ok");
    let reply = fetch(&client, "/readyz", None).await;
    assert_eq!(reply.status, 500);
    assert!(reply.text.contains("[-]sched-handler-sync failed: "), "{}", reply.text);
    health.set_synced(true);
    assert_eq!(
        (fetch(&client, "/readyz", None).await.status, fetch(&client, "/healthz", None).await.status),
        (200, 200)
    );
    let reply = fetch(&client, "/readyz?verbose=true", None).await;
    assert!(reply.text.ends_with("readyz check passed\n"), "{}", reply.text);
    health.set_shutting_down();
    assert_eq!(fetch(&client, "/readyz", None).await.status, 500);
}

#[tokio::test]
async fn on_a_loopback_address_everybody_may_read() {
    let (client, _) = start_on("127.0.0.1:0", None).await;
    let reply = fetch(&client, "/metrics", None).await;
    assert_eq!((reply.status, reply.kind.as_str()), (200, Metrics::CONTENT_TYPE));
    assert!(reply.text.ends_with("# EOF\n"));
    let reply = fetch(&client, "/configz", None).await;
    assert_eq!(
        (reply.kind.as_str(), reply.text.as_str()),
        ("application/json", r#"{"kind":"SchedulerConfiguration"}"#)
    );
    let reply = fetch(&client, "/debug/pods/default/a", None).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, r#"{"phase":"Pending"}"#));
    assert_eq!(fetch(&client, "/debug/pods/default/b", None).await.status, 404);
    assert!(fetch(&client, "/version", None).await.text.contains(env!("CARGO_PKG_VERSION")));
    assert!(fetch(&client, "/", None).await.text.contains("/metrics"));
}

#[tokio::test]
async fn elsewhere_the_api_server_decides() {
    let api = ApiServer::default();
    let (client, _) = start_on("0.0.0.0:0", Some(api.start().await)).await;
    for (path, token, status, words) in [
        ("/livez", None, 200, "ok"),
        ("/metrics", None, 401, "kubectl create token"),
        ("/metrics", Some("guess"), 401, "does not know"),
        ("/metrics", Some("stranger"), 403, "nonResourceURLs: [\"/metrics\"], verbs: [\"get\"]"),
        ("/metrics", Some("reader"), 200, "# EOF"),
        ("/configz", Some("reader"), 403, "\"reader\" may not get /configz"),
        ("/debug/pods/default/a", Some("reader"), 200, "Pending"),
        ("/debug/pods/other/a", Some("reader"), 403, "/debug/pods/other/a"),
        ("/debug/pods/default/..%2Fother", Some("reader"), 400, "escapes"),
        ("/version", None, 401, "Bearer"),
        ("/nothing", None, 401, "Bearer"),
        ("/healthz/", None, 401, "Bearer"),
    ] {
        let reply = fetch(&client, path, token).await;
        assert_eq!(reply.status, status, "{path} {token:?}: {}", reply.text);
        assert!(reply.text.contains(words), "{path} {token:?}: {}", reply.text);
    }
}

#[tokio::test]
async fn the_api_server_is_asked_once_in_a_while() {
    let api = ApiServer::default();
    let (client, _) = start_on("0.0.0.0:0", Some(api.start().await)).await;
    for _ in 0..5 {
        assert_eq!(fetch(&client, "/metrics", Some("reader")).await.status, 200);
    }
    assert_eq!(api.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn without_an_api_server_nothing_opens() {
    // A port that was just given back: nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (down, _) = start_on("0.0.0.0:0", Some(client(gone))).await;
    let reply = fetch(&down, "/metrics", Some("reader")).await;
    assert_eq!(reply.status, 503);
    assert!(reply.text.contains("cannot be asked"), "{}", reply.text);
    assert_eq!(fetch(&down, "/livez", None).await.status, 200);
}

#[tokio::test]
async fn a_missing_right_of_ours_is_named() {
    let denied = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
    let refuse = move || std::future::ready((StatusCode::FORBIDDEN, Body(denied.clone())));
    let address = listen_with(Router::new().fallback(refuse)).await;
    let (client, _) = start_on("0.0.0.0:0", Some(client(address))).await;
    let reply = fetch(&client, "/metrics", Some("reader")).await;
    assert_eq!(reply.status, 503);
    assert!(reply.text.contains("system:auth-delegator"), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_no_yes() {
    let silent = Router::new().fallback(std::future::pending::<StatusCode>);
    let reviewer = Reviewer::new(client(listen_with(silent).await));
    assert!(matches!(reviewer.ask("reader", "/metrics").await, Err(review::Unavailable::NoAnswer(_))));
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_does_not_answer_is_said_so() {
    let served = Served { metrics: Metrics::new(), health: health(), config_json: "{}".into(), ask: Arc::new(OnePod) };
    let reply = explain(State(served), Path(("default".into(), "stuck".into()))).await;
    assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_server_that_could_not_ask_does_not_start() {
    for (listen, starts) in [("127.0.0.1:0", true), ("[::ffff:127.0.0.1]:0", true), ("0.0.0.0:0", false)] {
        let rule = guard_for(listen.parse().unwrap(), None);
        assert_eq!(rule.is_ok(), starts, "{listen}");
        if let Err(error) = rule {
            assert!(error.to_string().contains("bindAddress to 127.0.0.1"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_with_its_address() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let ask = Arc::new(OnePod);
    let pending = std::future::pending();
    let error = start(address, Metrics::new(), health(), String::new(), ask, None, pending).await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn the_server_ends_with_the_process() {
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let ask = Arc::new(OnePod);
    let (_, task) = start(listen, Metrics::new(), health(), String::new(), ask, None, shutdown).await.unwrap();
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
}
