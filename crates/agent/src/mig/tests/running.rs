//! The whole of it, with an API server that answers.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use super::*;
use crate::handout::Claim;
use crate::mig::{Options, run};

type Requests = mpsc::UnboundedReceiver<(String, String, String)>;

/// Lists of this one node, with the label; the first question after the label finds none yet.
fn server(label: &str) -> (kube::Client, Requests) {
    let node = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "n1", "resourceVersion": "1", "labels": {"nvidia.com/mig.config": label}}});
    crate::fixtures::api::server(&json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "1"}, "items": [node]}))
}

/// The next of the requests that this is asked for, and its body.
async fn next(requests: &mut Requests, what: impl Fn(&str, &str, &Value) -> bool) -> Value {
    loop {
        let (method, path, body) = requests.recv().await.unwrap();
        let body: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        if what(&method, &path, &body) {
            return body;
        }
    }
}

fn says(state: &'static str) -> impl Fn(&str, &str, &Value) -> bool {
    move |method, path, body| {
        let ours = path.starts_with("/api/v1/nodes/n1?") && path.contains("fieldManager=gpu-scheduler-agent-mig");
        method == "PATCH" && ours && body["metadata"]["labels"]["nvidia.com/mig.config.state"] == state
    }
}

fn options(lab: &Lab) -> Options {
    Options {
        nvml_path: lab.installation.library(),
        journal: lab.folder.path().join("journal.json"),
        ..Options::usual("n1")
    }
}

#[tokio::test]
async fn the_label_is_followed_and_the_state_is_said() {
    let lab = Lab::of("A100-SXM4-40GB", Mig::default());
    let (client, mut requests) = server("all-2g.10gb");
    let changed = Arc::new(Notify::new());
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let running = tokio::spawn(run(options(&lab), client, Claim::default, changed.clone(), stopped));
    next(&mut requests, says("success")).await;
    assert_eq!(lab.shown(), "2g.10gb@0[2@0], 2g.10gb@2[2@0], 2g.10gb@4[2@0]");
    changed.notified().await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_failure_is_an_event_on_the_node() {
    let lab = Lab::of("A100-SXM4-40GB", Mig::default());
    let (client, mut requests) = server("all-9g.90gb");
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let running = tokio::spawn(run(options(&lab), client, Claim::default, Arc::default(), stopped));
    let event = next(&mut requests, |method, path, _| method == "POST" && path.contains("/events")).await;
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("MIGConfigFailed")));
    assert_eq!((&event["regarding"]["kind"], &event["regarding"]["name"]), (&json!("Node"), &json!("n1")));
    assert!(event["note"].as_str().unwrap().contains("there is no configuration \"all-9g.90gb\""), "{event}");
    next(&mut requests, says("failed")).await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(lab.shown(), "off");
}

/// A card that was in use is cut as soon as it is idle, and a file that is written anew is read anew.
#[tokio::test]
async fn what_was_in_the_way_is_looked_at_again() {
    let lab = Lab::of("A100-SXM4-40GB", Mig::default());
    let card = lab.installation.machine().unwrap().cards[0].uuid.clone();
    let (client, mut requests) = server("a");
    let file = lab.file("version: v1\nmig-configs: {b: []}\n");
    let held = Arc::new(std::sync::Mutex::new(BTreeSet::from([DeviceUuid::parse(&card).unwrap()])));
    let asked = held.clone();
    let options =
        Options { file: Some(file.clone()), retry_every: std::time::Duration::from_millis(10), ..options(&lab) };
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let running =
        tokio::spawn(run(options, client, move || Claim::of(asked.lock().unwrap().clone()), Arc::default(), stopped));
    let note = |what: &'static str| {
        move |method: &str, _: &str, body: &Value| {
            method == "POST" && body["note"].as_str().is_some_and(|note| note.contains(what))
        }
    };
    next(&mut requests, note("there is no configuration \"a\"")).await;
    let text = "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {7g.40gb: 1}}]}\n";
    let aside = file.with_extension("next");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    next(&mut requests, note("containers have")).await;
    assert_eq!(lab.shown(), "off");
    held.lock().unwrap().clear();
    next(&mut requests, says("success")).await;
    assert_eq!(lab.shown(), "7g.40gb@0[7@0]");
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
