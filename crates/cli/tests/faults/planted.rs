//! The checker on a real API server finds what is planted there: a test that it passes means something.

use std::time::Duration;

use gpu_scheduler_testbed::checker::{Checker, Rules, Violation};
use gpu_scheduler_testbed::control_plane::{ControlPlane, Options};
use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// A pod that says it holds a card whole.
fn holder(name: &str, node: &str) -> Pod {
    let device = json!({"uuid": "GPU-1", "memoryMiB": 81920, "computePercent": 100});
    let record = json!({"containers": [{"name": "main", "kind": "whole", "devices": [device]}]});
    PodObject::new(name).gpus(1).node(node).annotation("gpu-scheduler/allocation", &record.to_string()).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checker_finds_what_is_planted() {
    // Nobody schedules, and no policy keeps anybody from writing records.
    let options = Options { kwok: false, controller_manager: false, static_nodes: true, ..Options::default() };
    let mut cluster = ControlPlane::start(options).await.expect("a control plane");
    cluster.add_nodes([NodeObject::new("n1").ready().build()]).await.expect("a node");
    let rules = Rules { patience: Duration::from_millis(100), ..Rules::default() };
    let checker = Checker::start(cluster.client(), rules);
    cluster.add_pods([holder("a", "n1")]).await.expect("a pod");
    assert_eq!(checker.verdict().await.violations, []);
    // The API server restarts: the watch goes on.
    cluster.api_server().restart().await.expect("it starts again");
    cluster.add_pods([holder("b", "n1"), PodObject::new("silent").build()]).await.expect("pods");
    let found = checker.verdict().await.violations;
    let [Violation::WholeCardShared { holders, .. }, Violation::Unsettled { pod }] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!((holders.len(), pod.as_str()), (2, "silent"));
}
