//! What `deploy/` promises of a real API server: who may write the record of a pod, and that all of it is accepted.

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::control_plane::{ControlPlane, Options, User};
use gpu_scheduler_testbed::deploy::{self, ACCOUNT, NAMESPACE, POLICY, RECORD};
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use http::{Method, Request};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// What `kept` holds from the start.
const HELD: &str = r#"{"v":1,"containers":[]}"#;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The service account of `deploy/`.
    Scheduler,
    /// May do everything, by RBAC.
    Admin,
    /// Another service account of the scheduler's namespace, which may do everything.
    Neighbour,
    /// The kubelet of the node that the pods are on.
    Kubelet,
}
use Who::{Admin, Kubelet, Neighbour, Scheduler};

impl Who {
    const ALL: [Self; 4] = [Scheduler, Admin, Neighbour, Kubelet];

    fn name(self) -> String {
        match self {
            Scheduler => format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"),
            Admin => "alice".to_owned(),
            Neighbour => format!("system:serviceaccount:{NAMESPACE}:neighbour"),
            Kubelet => "system:node:n1".to_owned(),
        }
    }
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is done, and the record of the answered pod is this.
    Leaves(Option<&'static str>),
    /// The policy refuses it, and says this.
    Refused(&'static str),
}
use Outcome::{Leaves, Refused};

/// A client for each of [`Who::ALL`].
struct Clients(Vec<Client>);

impl Clients {
    fn of(&self, who: Who) -> &Client {
        &self.0[Who::ALL.iter().position(|&one| one == who).expect("all are listed")]
    }
}

/// Sends a request. The answer is the object, or code and text of the refusal.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: &Value,
) -> Result<Value, (u16, String)> {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/v1/{path}"))
        .header(http::header::CONTENT_TYPE, content)
        .body(body.to_string().into_bytes())
        .expect("our paths are well formed");
    match client.request(request).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{path}: {error}"),
    }
}

/// A pod with a record; `null` for one without.
fn pod(name: &str, record: &Value) -> Value {
    let mut pod = serde_json::to_value(PodObject::new(name).build()).expect("a pod is JSON");
    if !record.is_null() {
        pod["metadata"]["annotations"] = json!({ RECORD: record });
    }
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

fn binding(name: &str, record: &Value) -> Value {
    let mut binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    if !record.is_null() {
        binding["metadata"]["annotations"] = json!({ RECORD: record });
    }
    binding
}

/// The pod that a kubelet shows for a file on its machine.
fn mirror_pod(node: &Node, record: &Value) -> Value {
    let mut pod = pod("static-n1", record);
    for key in ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"] {
        pod["metadata"]["annotations"][key] = json!("1");
    }
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node.uid(), "controller": true}]);
    pod["spec"]["nodeName"] = json!("n1");
    pod
}

/// A row of the table: who sends what, and what comes of it.
struct Row(Who, Method, String, &'static str, Value, Outcome);

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The pods `kept` and `plain` are on n1, with and without a record; `waiting` and `early` (with a record) are not bound.
fn table(node: &Node) -> Vec<Row> {
    let mut rows = Vec::new();
    let pods = "namespaces/default/pods";
    let patch = |record: Value| json!({"metadata": {"annotations": { RECORD: record, "another": "one" }}});
    let changes = [
        ("kept", json!("other"), Refused("leave it as it is")),
        ("kept", json!(""), Refused("leave it as it is")),
        ("kept", Value::Null, Refused("leave it in place")),
        ("kept", json!(HELD), Leaves(Some(HELD))),
        ("plain", json!("other"), Refused("leave it out of the pod")),
        ("plain", json!(""), Refused("leave it out of the pod")),
        ("plain", Value::Null, Leaves(None)),
    ];
    for (name, record, outcome) in changes {
        for who in [Admin, Neighbour, Kubelet] {
            let paths: &[&str] = if who == Kubelet { &["/status"] } else { &["", "/status"] };
            for sub in paths {
                rows.push(Row(
                    who,
                    Method::PATCH,
                    format!("{pods}/{name}{sub}"),
                    MERGE,
                    patch(record.clone()),
                    outcome,
                ));
            }
        }
        // By these two ways the API server takes no annotations at all. A pod on a node is resized only if its
        // kubelet can do that, so the pods here are not bound.
        let before = if name == "kept" { Some(HELD) } else { None };
        let unbound = if name == "kept" { "early" } else { "waiting" };
        for path in [format!("{pods}/{name}/ephemeralcontainers"), format!("{pods}/{unbound}/resize")] {
            rows.push(Row(Admin, Method::PATCH, path, MERGE, patch(record.clone()), Leaves(before)));
        }
    }
    // The scheduler writes what it wants, as far as RBAC goes.
    for (record, after) in [(json!("other"), Some("other")), (Value::Null, None), (json!(HELD), Some(HELD))] {
        rows.push(Row(Scheduler, Method::PATCH, format!("{pods}/kept/status"), MERGE, patch(record), Leaves(after)));
    }
    // Other ways to say the same.
    let applied = |record: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kept", "annotations": { RECORD: record }}});
    let force = format!("{pods}/kept?force=true&fieldManager=test");
    rows.push(Row(Admin, Method::PATCH, force.clone(), APPLY, applied("other"), Refused("leave it as it is")));
    rows.push(Row(Admin, Method::PATCH, force, APPLY, applied(HELD), Leaves(Some(HELD))));

    for (record, outcome) in [(json!("x"), Refused("leave it out of the pod")), (Value::Null, Leaves(None))] {
        for who in [Admin, Neighbour] {
            rows.push(Row(who, Method::POST, pods.to_owned(), JSON, pod("new", &record), outcome));
        }
        rows.push(Row(Kubelet, Method::POST, pods.to_owned(), JSON, mirror_pod(node, &record), outcome));
    }
    for (record, outcome) in [(json!("x"), Refused("bind without it")), (Value::Null, Leaves(None))] {
        for who in [Admin, Neighbour] {
            for path in [format!("{pods}/waiting/binding"), "namespaces/default/bindings".to_owned()] {
                rows.push(Row(who, Method::POST, path, JSON, binding("waiting", &record), outcome));
            }
        }
    }
    let path = format!("{pods}/waiting/binding");
    rows.push(Row(Scheduler, Method::POST, path, JSON, binding("waiting", &json!("x")), Leaves(None)));

    // Pods with a record can be got rid of.
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "kept"}});
    rows.push(Row(Admin, Method::POST, format!("{pods}/kept/eviction"), JSON, eviction, Leaves(None)));
    rows.push(Row(Admin, Method::DELETE, format!("{pods}/kept"), JSON, json!({}), Leaves(Some(HELD))));
    rows
}

#[tokio::test]
async fn nobody_but_the_scheduler_writes_the_record() {
    let users = vec![User::new("alice", &["system:masters"]), User::node("n1")];
    let options = Options { controller_manager: false, kwok: false, users, ..Options::default() };
    let cluster = ControlPlane::start(options).await.unwrap();
    let admin = cluster.client();
    Api::all(admin.clone()).create(&PostParams::default(), &NodeObject::new("n1").ready().build()).await.unwrap();
    let node = Api::<Node>::all(admin.clone()).get("n1").await.unwrap();
    let scheduler = deploy::install(&cluster).await.unwrap();
    neighbour_may_do_everything(admin.clone()).await;
    let neighbour = cluster.access_for_service_account(NAMESPACE, "neighbour").await.unwrap();
    let (alice, kubelet) = (cluster.access_for("alice").unwrap(), cluster.access_for("system:node:n1").unwrap());
    let mut clients = Clients(Vec::new());
    for access in [scheduler, alice, neighbour, kubelet] {
        clients.0.push(access.client().await.unwrap());
    }

    let names = ["kept", "plain", "early", "waiting"];
    cluster.add_pods(names.map(|name| PodObject::new(name).build())).await.unwrap();
    let pods = "namespaces/default/pods";
    let set_up = [
        (Scheduler, Method::POST, "kept/binding", JSON, binding("kept", &json!(HELD))),
        (Admin, Method::POST, "plain/binding", JSON, binding("plain", &Value::Null)),
        (Scheduler, Method::PATCH, "early/status", MERGE, json!({"metadata": {"annotations": { RECORD: HELD }}})),
    ];
    for (who, method, path, content, body) in set_up {
        send(clients.of(who), method, &format!("{pods}/{path}"), content, &body).await.unwrap();
    }

    let mut wrong = Vec::new();
    for Row(who, method, path, content, body, expected) in table(&node) {
        // Nothing is written, so that no row depends on another.
        let dry = format!("{path}{}dryRun=All", if path.contains('?') { '&' } else { '?' });
        let answer = send(clients.of(who), method.clone(), &dry, content, &body).await;
        let right = match (&answer, expected) {
            (Ok(object), Leaves(record)) => object["metadata"]["annotations"][RECORD].as_str() == record,
            (Err((code, text)), Refused(hint)) => {
                *code == 403 && text.contains(POLICY) && text.contains(hint) && text.contains(&who.name())
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{who:?} {method} {path} {body}: expected {expected:?}, got {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn neighbour_may_do_everything(admin: Client) {
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "neighbour"}})).expect("a neighbour with all rights");
    Api::namespaced(admin.clone(), NAMESPACE)
        .create(&PostParams::default(), &account)
        .await
        .expect("a neighbour with all rights");
    let rights: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "neighbour"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "neighbour", "namespace": NAMESPACE}],
    }))
    .expect("a neighbour with all rights");
    Api::all(admin).create(&PostParams::default(), &rights).await.expect("a neighbour with all rights");
}

#[tokio::test]
async fn no_way_to_write_pods_is_forgotten() {
    let options = Options { controller_manager: false, kwok: false, ..Options::default() };
    let cluster = ControlPlane::start(options).await.unwrap();
    let request = Request::get("/api/v1").body(Vec::new()).unwrap();
    let core: Value = cluster.client().request(request).await.unwrap();
    let mut ways: Vec<&str> = core["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    ways.retain(|name| *name == "bindings" || name.starts_with("pods/"));
    ways.sort_unstable();
    // The policy covers those that carry a pod or a binding; the others carry no annotation that ends on a pod.
    let covered = ["bindings", "pods/binding", "pods/ephemeralcontainers", "pods/resize", "pods/status"];
    let harmless = ["pods/attach", "pods/eviction", "pods/exec", "pods/log", "pods/portforward", "pods/proxy"];
    let mut known = [&covered[..], &harmless[..]].concat();
    known.sort_unstable();
    assert_eq!(ways, known, "a new way to pods: does it carry annotations? Then the policy must cover it");

    let policy = deploy::manifests().unwrap().into_iter().find(|m| m.name_any() == POLICY).unwrap();
    let rule = &policy.data["spec"]["matchConstraints"]["resourceRules"][0]["resources"];
    for way in covered.iter().chain(&["pods"]) {
        assert!(rule.as_array().unwrap().iter().any(|one| one == way), "the policy does not cover {way}");
    }
}

#[tokio::test]
async fn controllers_and_clusters_take_what_is_shipped() {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await.unwrap();
    let client = cluster.client();
    deploy::install(&cluster).await.unwrap();

    // The controller manager checks the types of the policy's expressions.
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let checked = |policy: &ValidatingAdmissionPolicy| {
        policy
            .status
            .as_ref()
            .is_some_and(|s| s.observed_generation == policy.metadata.generation && s.type_checking.is_some())
    };
    let policy = until(&policies, POLICY, "the policy's types to be checked", checked).await.unwrap();
    let warnings = policy.status.unwrap().type_checking.unwrap().expression_warnings;
    assert!(warnings.clone().unwrap_or_default().is_empty(), "{warnings:?}");

    // The namespace demands the restricted standard, and the Deployment's pods meet it.
    let workload: Vec<_> =
        deploy::manifests().unwrap().into_iter().filter(|m| m.data["spec"]["template"].is_object()).collect();
    assert_eq!(workload.len(), 1);
    deploy::apply(&client, &workload).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let both = |d: &Deployment| d.status.as_ref().and_then(|s| s.replicas) == Some(2);
    until(&deployments, "gpu-scheduler", "both replicas to be created", both).await.unwrap();

    // A template with a record, copied from a running pod, makes no pods and says so where its owner looks.
    let copied: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "copied"},
        "spec": {
            "selector": {"matchLabels": {"app": "copied"}},
            "template": {
                "metadata": {"labels": {"app": "copied"}, "annotations": { RECORD: "x" }},
                "spec": PodObject::new("copied").build().spec,
            },
        },
    }))
    .unwrap();
    Api::namespaced(client.clone(), "default").create(&PostParams::default(), &copied).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let told = |deployment: &Deployment| {
        let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions
            .filter(|c| c.type_.as_deref() == Some("ReplicaFailure"))
            .filter_map(|c| c.message.as_ref())
            .any(|m| m.contains(RECORD))
    };
    until(&deployments, "copied", "the Deployment to say why it has no pods", told).await.unwrap();
    let sets: Api<ReplicaSet> = Api::namespaced(client, "default");
    let sets = sets.list(&ListParams::default()).await.unwrap();
    assert!(sets.iter().all(|set| set.status.as_ref().is_some_and(|status| status.replicas == 0)));
}
