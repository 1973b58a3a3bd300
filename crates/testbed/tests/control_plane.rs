//! What the testbed promises of its control plane. `KUBERNETES_MINOR` chooses the minor; `make matrix` runs all.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use gpu_scheduler_testbed::control_plane::wait::{until, until_gone};
use gpu_scheduler_testbed::control_plane::{ControlPlane, ControlPlaneError, KubeScheduler, Options, User};
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// etcd and the API server, and nothing that takes a second more.
fn bare() -> Options {
    Options { controller_manager: false, kwok: false, ..Options::default() }
}

fn pods(client: Client) -> Api<Pod> {
    Api::namespaced(client, "default")
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The HTTP status of a refusal.
fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn a_share_is_bound_with_its_record_and_runs_on_a_simulated_node() {
    let cluster = ControlPlane::start(Options::default()).await.unwrap();
    cluster.add_nodes((1..=3).map(|n| NodeObject::new(&format!("n{n}")).build())).await.unwrap();
    let nodes = Api::<Node>::all(cluster.client()).list(&Default::default()).await.unwrap();
    assert_eq!(nodes.items.len(), 3);
    for node in &nodes {
        assert_eq!(node.labels()["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-80GB");
        assert_eq!(node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["nvidia.com/gpu"].0, "8");
        assert_eq!(node.spec.as_ref().unwrap().taints, None);
    }

    cluster.add_pods([PodObject::new("a").share("8Gi", 30).build()]).await.unwrap();
    let api = pods(cluster.client());
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some("a".to_owned()),
            annotations: Some([("gpu-scheduler/allocation".to_owned(), "a record".to_owned())].into()),
            ..ObjectMeta::default()
        },
        target: ObjectReference { kind: Some("Node".into()), name: Some("n2".into()), ..ObjectReference::default() },
    };
    // A watch shows every version: the first with a node must have the record already.
    let params = PostParams::default();
    let (bound, answer) = tokio::join!(
        until(&api, "a", "a to be bound", |pod| node_name(pod).is_some()),
        api.create_subresource::<_, Status>("binding", "a", &params, &binding),
    );
    answer.unwrap();
    let bound = bound.unwrap();
    assert_eq!((node_name(&bound), &*bound.annotations()["gpu-scheduler/allocation"]), (Some("n2"), "a record"));
    until(&api, "a", "a to run", |pod| phase(pod) == Some("Running")).await.unwrap();

    let address: SocketAddr = cluster.url().trim_start_matches("https://").parse().unwrap();
    let (folder, processes) = (cluster.folder().to_owned(), cluster.processes());
    let names: Vec<&str> = processes.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]);
    assert!(folder.exists() && TcpStream::connect(address).is_ok());
    cluster.stop();
    for (name, pid) in processes {
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "{name} still runs");
    }
    assert!(!folder.exists() && TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn nodes_like_kubelets_offer_their_capacity_and_let_pods_end_in_order() {
    let options = Options { like_kubelets: true, ..Options::default() };
    let cluster = ControlPlane::start(options).await.unwrap();
    cluster.add_nodes([NodeObject::new("n1").build()]).await.unwrap();
    let nodes = Api::<Node>::all(cluster.client());
    for amount in [Some("5"), Some("10"), None] {
        let patch = json!({"status": {"capacity": {"example.com/foo": amount}}});
        nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let offered = |node: &Node| {
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
            allocatable.and_then(|all| all.get("example.com/foo")).map(|quantity| quantity.0.clone()).as_deref()
                == amount
        };
        until(&nodes, "n1", &format!("{amount:?} to be allocatable"), offered).await.unwrap();
    }

    let api = pods(cluster.client());
    let held: Pod = serde_json::from_value(json!({
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
        "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "pause", "lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}],
        },
    }))
    .unwrap();
    let brief: Pod = serde_json::from_value(json!({
        "metadata": {"name": "brief"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]},
    }))
    .unwrap();
    cluster.add_pods([held, brief]).await.unwrap();
    for name in ["held", "brief"] {
        until(&api, name, "a pod to run", |pod| phase(pod) == Some("Running")).await.unwrap();
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until_gone(&api, "brief").await.unwrap();

    let ended = |pod: &Pod| phase(pod) == Some("Failed") && pod.metadata.deletion_grace_period_seconds == Some(0);
    let ended = until(&api, "held", "held to end and to be deleted once more", ended).await.unwrap();
    let statuses = ended.status.unwrap().container_statuses.unwrap();
    let terminated = statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap();
    let ran = terminated.finished_at.as_ref().unwrap().0 - terminated.started_at.as_ref().unwrap().0;
    // The hook's seconds at least, and not the whole grace period. API times are whole seconds.
    assert!((1..30).contains(&ran.get_seconds()), "{ran:?}");
    let free = json!({"metadata": {"finalizers": null}});
    api.patch("held", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    until_gone(&api, "held").await.unwrap();
}

#[tokio::test]
async fn two_control_planes_know_nothing_of_each_other() {
    // One in a task of its own, as a program that does other things meanwhile would start it.
    let one = tokio::spawn(ControlPlane::start(bare()));
    let other = ControlPlane::start(bare()).await.unwrap();
    let one = one.await.unwrap().unwrap();
    assert!(one.url() != other.url() && one.folder() != other.folder());
    one.add_pods([PodObject::new("a").build()]).await.unwrap();
    pods(one.client()).get("a").await.unwrap();
    assert_eq!(code(pods(other.client()).get("a").await), 404);
    // Nor do they take each other's tokens.
    let mut config = other.admin().config().await.unwrap();
    config.auth_info = one.admin().config().await.unwrap().auth_info;
    assert_eq!(code(pods(Client::try_from(config).unwrap()).get("a").await), 401);
    one.stop();
    assert_eq!(code(pods(other.client()).get("a").await), 404);
}

#[tokio::test]
async fn the_baseline_scheduler_binds_whole_cards_on_static_nodes() {
    let options = Options { kube_scheduler: Some(KubeScheduler::default()), ..Options::load_test() };
    let cluster = ControlPlane::start(options).await.unwrap();
    cluster.add_nodes([NodeObject::new("n1").ready().build()]).await.unwrap();
    let pod = |name, gpus| PodObject::new(name).gpus(gpus).scheduler("default-scheduler").build();
    cluster.add_pods([pod("fits", 8)]).await.unwrap();
    let api = pods(cluster.client());
    let bound = until(&api, "fits", "fits to be bound", |pod| node_name(pod).is_some()).await.unwrap();
    assert_eq!(node_name(&bound), Some("n1"));
    cluster.add_pods([pod("waits", 1)]).await.unwrap();
    let refused = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.filter_map(|c| c.message.as_deref()).any(|m| m.contains("Insufficient nvidia.com/gpu"))
    };
    until(&api, "waits", "waits to be refused", refused).await.unwrap();
}

#[tokio::test]
async fn the_api_server_comes_back_with_its_data() {
    let mut cluster = ControlPlane::start(bare()).await.unwrap();
    cluster.add_pods([PodObject::new("a").build()]).await.unwrap();
    let (client, url, pid) = (cluster.client(), cluster.url(), cluster.api_server().pid().unwrap());

    cluster.api_server().kill();
    assert_eq!(cluster.api_server().pid(), None);
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    pods(client.clone()).get("a").await.unwrap_err();

    cluster.api_server().restart().await.unwrap();
    assert_eq!(cluster.url(), url);
    pods(client).get("a").await.unwrap();
    cluster.check().unwrap();
}

#[tokio::test]
async fn each_user_is_who_the_token_says_and_may_what_rbac_allows() {
    let users = vec![User::new("alice", &["team-a", "team-b"]), User::node("n1")];
    let cluster = ControlPlane::start(Options { kwok: false, users, ..Options::default() }).await.unwrap();
    let nobody = cluster.access_for("bob").unwrap_err();
    assert!(matches!(nobody, ControlPlaneError::UnknownUser { .. }), "{nobody}");

    let alice = cluster.access_for("alice").unwrap().client().await.unwrap();
    let node = cluster.access_for("system:node:n1").unwrap().client().await.unwrap();
    let account = cluster.access_for_service_account("default", "default").await.unwrap().client().await.unwrap();
    let expected = [
        (&alice, "alice", "team-b"),
        (&node, "system:node:n1", "system:nodes"),
        (&account, "system:serviceaccount:default:default", "system:serviceaccounts"),
    ];
    for (client, name, group) in expected {
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
        let user = review.status.unwrap().user_info.unwrap();
        assert_eq!(user.username.as_deref(), Some(name));
        assert!(user.groups.unwrap().iter().any(|g| g == group), "{name} is not in {group}");
        assert_eq!(code(Api::<ConfigMap>::namespaced(client.clone(), "default").get("any").await), 403);
    }
}

#[tokio::test]
async fn a_program_that_will_not_start_says_why() {
    let options = Options { api_server_args: vec!["--no-such-flag".to_owned()], ..bare() };
    let error = ControlPlane::start(options).await.unwrap_err();
    let ControlPlaneError::Exited { program, log, .. } = error else { panic!("{error}") };
    assert_eq!(program, "kube-apiserver");
    assert!(log.contains("unknown flag: --no-such-flag"), "{log}");

    let error = ControlPlane::start(Options { minor: Some("1.1".to_owned()), ..bare() }).await.unwrap_err();
    assert!(matches!(error, ControlPlaneError::UnknownMinor { .. }), "{error}");
}
