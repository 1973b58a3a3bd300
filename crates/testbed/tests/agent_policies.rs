//! What `deploy/agent/` promises of a real API server: shares get their seats, and nonsense is refused with a word of help.

use gpu_scheduler_testbed::control_plane::{ControlPlane, Options};
use gpu_scheduler_testbed::deploy::{
    self, AGENT, OWN_NODE_POLICY, REQUESTS_POLICY, SEATS, install_agent, install_agent_policies,
};
use gpu_scheduler_testbed::objects::NodeObject;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const MEMORY: &str = "gpu-scheduler/memory";
const COMPUTE: &str = "gpu-scheduler/compute";
const GPUS: &str = "gpu-scheduler/gpus";
const CARDS: &str = "nvidia.com/gpu";

fn container(name: &str, limits: &Value) -> Value {
    json!({"name": name, "image": "x", "resources": {"limits": limits}})
}

fn pod(init: &[Value], containers: &[Value]) -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"initContainers": init, "containers": containers},
    });
    serde_json::from_value(pod).expect("a pod")
}

/// Limits and requests of each container's seat, init containers first.
fn seats(pod: &Pod) -> Vec<(Option<String>, Option<String>)> {
    let spec = pod.spec.as_ref().expect("a spec");
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.map(|c| {
        let resources = c.resources.clone().unwrap_or_default();
        let seat = |list: Option<
            std::collections::BTreeMap<_, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
        >| { list.and_then(|list| list.get(SEATS).map(|q| q.0.clone())) };
        (seat(resources.limits), seat(resources.requests))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_the_agent() {
    let cluster = ControlPlane::start(Options::default()).await.expect("a control plane");
    install_agent_policies(&cluster).await.expect("policies");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let dry = PostParams { dry_run: true, ..PostParams::default() };

    let seat = |n: &str| (Some(n.to_owned()), Some(n.to_owned()));
    let none = (None, None);
    let plain = container("plain", &json!({"cpu": "1"}));
    for (what, init, containers, expected) in [
        (
            "no share",
            vec![],
            vec![plain.clone(), container("gpu", &json!({CARDS: "1"}))],
            vec![none.clone(), none.clone()],
        ),
        ("a share", vec![], vec![container("a", &json!({MEMORY: "8Gi"}))], vec![seat("1")]),
        ("several cards", vec![], vec![container("a", &json!({MEMORY: "8Gi", GPUS: "2"}))], vec![seat("2")]),
        (
            "some of several",
            vec![container("init", &json!({MEMORY: "1Gi"})), container("second", &json!({"cpu": "1"}))],
            vec![plain.clone(), container("a", &json!({MEMORY: "8Gi", COMPUTE: "30", "cpu": "2"}))],
            vec![seat("1"), none.clone(), none.clone(), seat("1")],
        ),
        ("its own", vec![], vec![container("a", &json!({MEMORY: "8Gi", SEATS: "1"}))], vec![seat("1")]),
        ("seats alone", vec![], vec![container("a", &json!({SEATS: "3"}))], vec![seat("3")]),
    ] {
        let given = pods.create(&dry, &pod(&init, &containers)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(seats(&given), expected, "{what}");
        let spec = given.spec.expect("a spec");
        assert_eq!(spec.containers.len(), containers.len(), "{what}");
        let kept = |c: &Value| c["resources"]["limits"].as_object().expect("limits").clone();
        for (before, after) in containers.iter().zip(&spec.containers) {
            let limits = after.resources.as_ref().and_then(|r| r.limits.clone()).unwrap_or_default();
            for (name, amount) in kept(before) {
                assert_eq!(limits.get(&name).map(|q| json!(q.0)), Some(amount), "{what}: {name}");
            }
        }
    }

    for (what, limits, text) in [
        ("compute alone", json!({COMPUTE: "30"}), "add the memory per card, such as gpu-scheduler/memory: 8Gi"),
        ("cards alone", json!({GPUS: "2"}), "without gpu-scheduler/memory"),
        ("both", json!({MEMORY: "8Gi", CARDS: "1"}), "asks for both nvidia.com/gpu and a share"),
        ("too much", json!({MEMORY: "8Gi", COMPUTE: "101"}), "101; write whole percent of one card, from 1 to 100"),
        ("nothing", json!({MEMORY: "8Gi", COMPUTE: "0"}), "write whole percent of one card, from 1 to 100"),
        ("no memory", json!({MEMORY: "0"}), "write bytes per card, more than 0, such as 8Gi"),
        ("too many seats", json!({MEMORY: "8Gi", SEATS: "2"}), "a share has one seat on each card, so write 1"),
    ] {
        for init in [true, false] {
            let faulty = container("faulty", &limits);
            let (init, containers) =
                if init { (vec![faulty], vec![plain.clone()]) } else { (vec![], vec![plain.clone(), faulty]) };
            match pods.create(&dry, &pod(&init, &containers)).await {
                Err(kube::Error::Api(status)) => {
                    let message = &status.message;
                    assert!(message.contains(REQUESTS_POLICY) && message.contains("\"faulty\""), "{what}: {message}");
                    assert!(message.contains(text), "{what}: {message}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_writes_about_its_own_node() {
    let cluster = ControlPlane::start(Options::default()).await.expect("a control plane");
    deploy::install(&cluster).await.expect("the manifests of deploy/");
    install_agent(&cluster).await.expect("the manifests of deploy/agent/");
    cluster.add_nodes(["n1", "n2"].map(|name| NodeObject::new(name).build())).await.expect("nodes");
    let agent = cluster.access_on_node(AGENT, AGENT, "n1").await.expect("an agent's access");
    let client = agent.client().await.expect("a client");
    let nodes: Api<Node> = Api::all(client.clone());
    let states = deploy::node_states(client);
    let apply = PatchParams::apply("gpu-scheduler-agent").force();
    let state = |node: &str| json!({"apiVersion": "gpu-scheduler.io/v1alpha1", "kind": "GPUNodeState", "metadata": {"name": node}});
    states.patch("n1", &apply, &Patch::Apply(state("n1"))).await.expect("its own report");
    let labels = json!({"metadata": {"labels": {"nvidia.com/gpu.count": "8"}, "annotations": {"gpu-scheduler/memory-used": "1"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(labels.clone())).await.expect("its own node");

    let refused = |answer: Result<String, kube::Error>, word: &str| {
        let error = answer.expect_err("it is refused").to_string();
        assert!(error.contains(OWN_NODE_POLICY) && error.contains(word), "{error}");
    };
    let other = states.patch("n2", &apply, &Patch::Apply(state("n2"))).await;
    refused(other.map(|object| object.name_any()), "this token is of node n1, and not of n2");
    let events: Api<Event> = Api::namespaced(agent.client().await.expect("a client"), "default");
    for (instance, allowed) in [("n1", true), ("n2", false)] {
        let event = json!({
            "metadata": {"name": format!("told-by-{instance}")}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Warning",
            "action": "Allocate", "reason": "Test", "reportingController": "gpu-scheduler-agent", "reportingInstance": instance,
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        });
        let event: Event = serde_json::from_value(event).expect("an event");
        let answer = events.create(&PostParams::default(), &event).await;
        if allowed {
            answer.expect("its own event");
        } else {
            refused(answer.map(|object| object.name_any()), "this token is of node n1, and not of n2");
        }
    }
    for (node, patch, word) in [
        ("n2", labels, "this token is of node n1, and not of n2"),
        ("n1", json!({"spec": {"unschedulable": true}}), "nothing else of it"),
        ("n1", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}), "nothing else of it"),
        ("n1", json!({"metadata": {"finalizers": ["example.com/mine"]}}), "nothing else of it"),
        ("n1", json!({"metadata": {"annotations": {"example.com/switch": "off"}}}), "begin with gpu-scheduler/"),
        ("n1", json!({"metadata": {"labels": {"team": "mine"}}}), "begin with nvidia.com/"),
        ("n1", json!({"metadata": {"labels": {"kubernetes.io/hostname": null}}}), "begin with nvidia.com/"),
    ] {
        let answer = nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
        refused(answer.map(|object| object.name_any()), word);
    }
}
