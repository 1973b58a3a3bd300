//! The DaemonSet of `deploy/agent/`, with its own tolerations, mounts, capabilities and rights.
//!
//! What differs from what an operator applies: the image, which is the testbed's with this machine's build mounted into it; the
//! host's network, for a node of the testbed has no other; where the described cards are; and who schedules the pod itself.

use std::net::TcpListener;
use std::path::Path;

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::deploy;
use gpu_scheduler_testbed::node::{IMAGE, RealNodeOptions};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::bed::{BINARY, Bed, NODE, share, shipped, whole};

/// The manifest.
fn manifest() -> Value {
    let objects = deploy::agent_manifests().unwrap();
    let found = objects.into_iter().find(|object| object.types.as_ref().unwrap().kind == "DaemonSet");
    serde_json::to_value(found.unwrap()).unwrap()
}

/// How the agent's pod is, what it wrote, and what was said about it.
async fn how_it_is(bed: &Bed) -> String {
    let pods: Api<Pod> = Api::namespaced(bed.client(), deploy::AGENT);
    let mut text = String::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let log = pods.logs(&pod.name_any(), &LogParams::default()).await;
        text += &format!("{:?}\n{}\n", pod.status, log.unwrap_or_else(|error| error.to_string()));
    }
    let events: Api<Event> = Api::namespaced(bed.client(), deploy::AGENT);
    for event in events.list(&ListParams::default()).await.unwrap() {
        text += &format!("{:?}: {:?}\n", event.involved_object.name, event.message);
    }
    text
}

/// The manifest as it runs here.
fn adapted(bed: &Bed) -> DaemonSet {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = bed.cluster.url();
    let cards = bed.cards();
    let mut object = manifest();
    let pod = &mut object["spec"]["template"]["spec"];
    pod["hostNetwork"] = json!(true);
    pod["schedulerName"] = json!("gpu-scheduler");
    let container = &mut pod["containers"][0];
    container["image"] = json!(IMAGE);
    container["command"] = json!([BINARY]);
    container["ports"][0]["containerPort"] = json!(port);
    for argument in container["args"].as_array_mut().unwrap() {
        if argument.as_str().unwrap().starts_with("--bind-address=") {
            *argument = json!(format!("--bind-address=127.0.0.1:{port}"));
        }
    }
    let places = [("--nvml", &cards.nvml), ("--sysfs", &cards.sysfs), ("--procfs", &cards.procfs)];
    container["args"]
        .as_array_mut()
        .unwrap()
        .extend(places.map(|(flag, path)| json!(format!("{flag}={}", path.display()))));
    let (host, port) = server.trim_start_matches("https://").rsplit_once(':').unwrap();
    let variables = [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)];
    container["env"]
        .as_array_mut()
        .unwrap()
        .extend(variables.map(|(name, value)| json!({"name": name, "value": value})));
    let here = [
        Path::new("/lib64"),
        Path::new("/lib/x86_64-linux-gnu"),
        Path::new(BINARY).parent().unwrap(),
        cards.nvml.parent().unwrap(),
        bed.folder.path(),
    ];
    for (n, path) in here.into_iter().enumerate() {
        let name = format!("here-{n}");
        let mount = json!({"name": name, "mountPath": path, "readOnly": true});
        pod["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
        pod["volumes"].as_array_mut().unwrap().push(json!({"name": name, "hostPath": {"path": path}}));
    }
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_an_operator_applies_it() {
    let labels = [("nvidia.com/gpu.present".to_owned(), "true".to_owned())].into();
    let options = RealNodeOptions { labels, ..RealNodeOptions::new(NODE) };
    let mut bed = Bed::without_agent(shipped("8xA100-80GB-SXM"), options).await;
    // As GPU nodes often are; and what tolerates it are the agent, and the pods that want a card.
    let taint = json!({"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}});
    let nodes: Api<Node> = Api::all(bed.client());
    nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();

    let sets: Api<DaemonSet> = Api::namespaced(bed.client(), deploy::AGENT);
    // As it is written, the API server takes it too.
    let written: DaemonSet = serde_json::from_value(manifest()).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    sets.create(&dry, &written).await.unwrap();
    let set = sets.create(&PostParams::default(), &adapted(&bed)).await.unwrap();
    let ready = |set: &DaemonSet| set.status.as_ref().is_some_and(|status| status.number_ready == 1);
    if until(&sets, &set.name_any(), "the agent to be ready", ready).await.is_err() {
        panic!("the agent does not get ready: {}", how_it_is(&bed).await);
    }
    bed.offers("nvidia.com/gpu", 8).await;
    bed.reported().await;

    let tolerant = |mut pod: Pod| {
        let toleration = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
        pod.spec.as_mut().unwrap().tolerations = serde_json::from_value(toleration).unwrap();
        pod
    };
    bed.create([tolerant(whole("first", 2)), tolerant(share("second", "8Gi"))]).await;
    for pod in ["first", "second"] {
        bed.runs(pod).await;
        bed.devices(pod, "main").await;
    }
    bed.check().await;
}
