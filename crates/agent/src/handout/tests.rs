//! The hand-out against the other side of kubelet's protocol, over real sockets.

use std::path::PathBuf;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::config::ConfigFiles;
use crate::fixtures::kubelet::Kubelet;
use crate::fixtures::written::{pod, started};
use crate::fixtures::{card, node, partitioned};
use crate::inventory::{Card, DeviceHealth, DeviceUuid};
use crate::kubelet::deviceplugin::ContainerAllocateResponse;
use crate::resources::SeatRules;

/// A node: its folders, what is seen on it, and its pods.
struct Node {
    folder: tempfile::TempDir,
    seen: watch::Sender<Arc<Seen>>,
    pods: watch::Sender<Arc<Vec<NodePod>>>,
    patience: Duration,
    config: String,
}

/// A hand-out that runs.
struct Agent {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), HandoutError>>,
    teller: Teller,
}

impl Node {
    fn new(cards: Vec<Card>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("plugins")).unwrap();
        let seen = watch::channel(Arc::new(Seen { inventory: node(cards), health: BTreeMap::new() })).0;
        let pods = watch::channel(Arc::default()).0;
        Self { folder, seen, pods, patience: Duration::from_secs(60), config: String::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pods(&self, pods: &[NodePod]) {
        self.pods.send_replace(Arc::new(pods.to_vec()));
    }

    fn options(&self) -> Options {
        fs::write(self.path("config.yaml"), &self.config).unwrap();
        let mut options = Options::usual("n1");
        options.plugins = self.path("plugins");
        options.pod_resources = self.path("pod-resources.sock");
        options.checkpoint = self.path("handed-out.json");
        options.config.files = ConfigFiles::One(self.path("config.yaml"));
        options.seats = SeatRules { per_card: 4, by_mps: false };
        options.cdi = self.path("cdi");
        options.root = self.path("root");
        options.procfs = self.path("root/proc");
        options.patience = self.patience;
        options.grace = Duration::ZERO;
        options
    }

    fn start(&self) -> Agent {
        let mut handout =
            Handout::with(self.options(), self.seen.subscribe(), self.pods_now()).expect("a configuration");
        let teller = handout.teller().expect("nobody took it");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(handout.run(async move {
            let _ = stopped.await;
        }));
        Agent { stop, task, teller }
    }

    /// The pods as a fresh watch shows them: what is there counts as just listed.
    fn pods_now(&self) -> watch::Receiver<Arc<Vec<NodePod>>> {
        let mut pods = self.pods.subscribe();
        if !pods.borrow().is_empty() {
            pods.mark_changed();
        }
        pods
    }

    async fn kubelet(&self) -> Kubelet {
        Kubelet::start(&self.path("plugins"), &self.path("pod-resources.sock")).await
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(|seen| change(Arc::make_mut(seen)));
    }
}

impl Agent {
    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().expect("it ends in order");
    }

    /// As if the process had been killed: nothing is put away.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn next_report(&mut self) -> &'static str {
        self.teller.next().await.expect("a report").reason()
    }
}

fn visible(response: &ContainerAllocateResponse) -> &str {
    &response.envs["NVIDIA_VISIBLE_DEVICES"]
}

fn two_cards() -> Vec<Card> {
    vec![card(0), card(1)]
}

#[tokio::test]
async fn a_pod_gets_the_cards_of_its_record() {
    let node = Node::new((0..4).map(card).collect());
    node.pods(&[pod("a = main: gpu*2>3,1"), pod("b = main: gpu*2>0,2")]);
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    for name in ["nvidia.com/gpu", "nvidia.com/gpu.shared"] {
        kubelet.registered(name).await;
    }
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    assert_eq!(gpu.devices().await.len(), 4);
    let ids = gpu.prefer(&["GPU-0", "GPU-1", "GPU-2", "GPU-3"], &[], 2).await;
    assert_eq!(ids, ["GPU-1", "GPU-3"]);
    assert_eq!(visible(&gpu.allocate(&ids).await.unwrap()), "GPU-1,GPU-3");
    let ids = gpu.prefer(&["GPU-0", "GPU-2"], &[], 2).await;
    assert_eq!(visible(&gpu.allocate(&ids).await.unwrap()), "GPU-0,GPU-2");
    agent.stop().await;
    let left: Vec<_> = fs::read_dir(node.path("plugins")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["kubelet.sock"], "sockets are gone");
}

#[tokio::test]
async fn a_call_waits_for_the_pod_that_explains_it() {
    let node = Node::new(two_cards());
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    let mut asked = Box::pin(async move { gpu.prefer(&["GPU-0", "GPU-1"], &[], 1).await });
    assert!(futures::poll!(&mut asked).is_pending());
    // Another pod explains nothing.
    node.pods(&[pod("other = main: gpu*2>0,1")]);
    assert!(futures::poll!(&mut asked).is_pending());
    node.pods(&[pod("a = main: gpu*1>1")]);
    assert_eq!(asked.await, ["GPU-1"]);
    agent.stop().await;
}

#[tokio::test]
async fn pods_and_their_records_come_from_the_api_server() {
    let record = r#"{"v":1,"containers":[{"name":"main","kind":"whole","devices":[
        {"uuid":"GPU-1","index":1,"memoryMiB":81920,"computePercent":100}]}]}"#;
    let list = serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1",
            "annotations": {"gpu-scheduler/allocation": record}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }]});
    let (client, _requests) = crate::fixtures::api::server(&list);
    let node = Node::new(two_cards());
    let mut kubelet = node.kubelet().await;
    let handout = Handout::new(node.options(), client, node.seen.subscribe()).await.expect("a configuration");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(handout.run(async move {
        let _ = stopped.await;
    }));
    kubelet.registered("nvidia.com/gpu").await;
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    assert_eq!(gpu.prefer(&["GPU-0", "GPU-1"], &[], 1).await, ["GPU-1"]);
    drop(stop);
    running.await.unwrap().expect("it ends in order");
}

#[tokio::test]
async fn what_nothing_explains_is_given_and_told() {
    let node = Node { patience: Duration::from_millis(20), ..Node::new(two_cards()) };
    node.pods(&[pod("a = main: gpu*1>1")]);
    let mut kubelet = node.kubelet().await;
    let mut agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    kubelet.registered("nvidia.com/gpu.shared").await;
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    assert_eq!(visible(&gpu.allocate(&["GPU-0"]).await.unwrap()), "GPU-0");
    assert_eq!(agent.next_report().await, "GPUAllocationMismatch");
    // kubelet that asks again for the same has forgotten it: the container keeps what it has.
    assert_eq!(visible(&gpu.allocate(&["GPU-0"]).await.unwrap()), "GPU-0");
    assert_eq!(visible(&gpu.allocate(&["GPU-1"]).await.unwrap()), "GPU-1");
    assert_eq!(agent.next_report().await, "GPUAllocationUnexplained");
    node.pods(&[started("a = main: gpu*1>1"), pod("b = main: gpu.shared*1>0=1")]);
    let shared = kubelet.plugin("nvidia.com/gpu.shared").await;
    let refused = shared.allocate(&["GPU-0::0"]).await.unwrap_err();
    assert!(refused.contains("GPU-0 is held by container main of pod default/a"), "{refused}");
    assert_eq!(agent.next_report().await, "GPUAllocationRefused");
    agent.stop().await;
}

#[tokio::test]
async fn whole_cards_and_shares_know_of_each_other() {
    let node = Node { patience: Duration::from_millis(20), ..Node::new(vec![card(0)]) };
    node.pods(&[pod("a = main: gpu.shared*1>0=8192"), pod("b = main: gpu*1")]);
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    kubelet.registered("nvidia.com/gpu.shared").await;
    let shared = kubelet.plugin("nvidia.com/gpu.shared").await;
    assert_eq!(visible(&shared.allocate(&["GPU-0::2"]).await.unwrap()), "GPU-0");
    let refused = kubelet.plugin("nvidia.com/gpu").await.allocate(&["GPU-0"]).await.unwrap_err();
    assert!(refused.contains("GPU-0 is held by container main of pod default/a, which has a share"), "{refused}");
    agent.stop().await;
}

#[tokio::test]
async fn kubelet_starts_anew() {
    let node = Node::new(two_cards());
    node.pods(&[pod("a = main: gpu*1>1")]);
    let agent = node.start();
    // The agent is there first.
    let mut kubelet = node.kubelet().await;
    kubelet.registered("nvidia.com/gpu").await;
    kubelet.plugin("nvidia.com/gpu").await.allocate(&["GPU-1"]).await.unwrap();
    // It empties its folder, as kubelet does when it starts.
    kubelet.stop().await;
    for entry in fs::read_dir(node.path("plugins")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let mut kubelet = node.kubelet().await;
    kubelet.registered("nvidia.com/gpu").await;
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    assert_eq!(gpu.devices().await.len(), 2);
    agent.stop().await;
}

#[tokio::test]
async fn kubelet_refuses_at_first() {
    let node = Node::new(two_cards());
    let mut kubelet = node.kubelet().await;
    kubelet.refuse(2);
    let agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    kubelet.registered("nvidia.com/gpu.shared").await;
    agent.stop().await;
}

#[tokio::test]
async fn the_agent_starts_anew_and_nothing_is_given_twice() {
    let node = Node { patience: Duration::from_millis(20), ..Node::new(two_cards()) };
    node.pods(&[pod("f = main: gpu*1")]);
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    let gpu = kubelet.plugin("nvidia.com/gpu").await;
    gpu.allocate(&["GPU-0"]).await.unwrap();
    agent.kill().await;
    kubelet.lists("f", "main", "nvidia.com/gpu", &["GPU-0"]);
    node.pods(&[started("f = main: gpu*1"), pod("s = main: gpu.shared*1")]);
    let share = async |kubelet: &mut Kubelet| {
        kubelet.registered("nvidia.com/gpu.shared").await;
        let shared = kubelet.plugin("nvidia.com/gpu.shared").await;
        let preferred = shared.prefer(&["GPU-0::0", "GPU-1::0"], &[], 1).await;
        (preferred, shared.allocate(&["GPU-0::0"]).await.unwrap_err())
    };
    kubelet.forget();
    let agent = node.start();
    let (preferred, refused) = share(&mut kubelet).await;
    assert_eq!(preferred, ["GPU-1::0"]);
    assert!(refused.contains("GPU-0 is held by container main of pod default/f"), "{refused}");
    agent.kill().await;
    // Without its checkpoint the agent takes it from kubelet, and says that it was broken by setting it aside.
    fs::write(node.path("handed-out.json"), "{").unwrap();
    kubelet.forget();
    let agent = node.start();
    let (_, refused) = share(&mut kubelet).await;
    assert!(refused.contains("GPU-0 is held by container main of pod default/f"), "{refused}");
    assert!(node.path("handed-out.json.broken").exists());
    // The pod ends, for the API server and for kubelet: its card is free.
    kubelet.lists_nothing();
    node.pods(&[pod("s = main: gpu.shared*1")]);
    let shared = kubelet.plugin("nvidia.com/gpu.shared").await;
    assert_eq!(visible(&shared.allocate(&["GPU-0::0"]).await.unwrap()), "GPU-0");
    agent.stop().await;
}

#[tokio::test]
async fn health_and_partitions_are_followed() {
    let node =
        Node { config: "flags: {migStrategy: mixed}".into(), ..Node::new(vec![card(0), partitioned(1, &["1g.10gb"])]) };
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    kubelet.registered("nvidia.com/mig-1g.10gb").await;
    kubelet.registered("nvidia.com/gpu").await;
    let mut devices = kubelet.plugin("nvidia.com/gpu").await.watch().await;
    assert_eq!(devices.next().await, Some(vec!["GPU-0 Healthy numa 0".to_owned()]));
    let sick = DeviceUuid::parse("GPU-0").unwrap();
    node.see(|seen| {
        seen.health.insert(sick.clone(), DeviceHealth::Unhealthy { reason: "XID 79".into() });
    });
    assert_eq!(devices.next().await, Some(vec!["GPU-0 Unhealthy numa 0".to_owned()]));
    // It recovers, which NVIDIA's plugin never tells.
    node.see(|seen| seen.health.clear());
    assert_eq!(devices.next().await, Some(vec!["GPU-0 Healthy numa 0".to_owned()]));
    let mut slices = kubelet.plugin("nvidia.com/mig-1g.10gb").await.watch().await;
    assert_eq!(slices.next().await.map(|it| it.len()), Some(1));
    node.see(|seen| seen.inventory.cards[1] = partitioned(1, &["2g.20gb"]));
    assert_eq!(slices.next().await, None, "the resource has gone, and its plugin with it");
    kubelet.registered("nvidia.com/mig-2g.20gb").await;
    assert!(!node.path("plugins/nvidia-mig-1g.10gb.sock").exists());
    agent.stop().await;
}

#[tokio::test]
async fn cards_that_cannot_be_offered_end_the_start_or_wait() {
    let mixed = || vec![card(0), partitioned(1, &["1g.10gb"])];
    let strict = Node { config: "flags: {migStrategy: single}".into(), ..Node::new(mixed()) };
    let problem = strict.start().task.await.unwrap().expect_err("it is said");
    assert!(problem.to_string().starts_with("this node's cards cannot be offered: migStrategy single"), "{problem}");
    let config = "flags: {migStrategy: single, failOnInitError: false}".to_owned();
    let patient = Node { config, ..Node::new(mixed()) };
    let mut kubelet = patient.kubelet().await;
    let agent = patient.start();
    patient.see(|seen| seen.inventory.cards[0] = partitioned(0, &["1g.10gb"]));
    kubelet.registered("nvidia.com/gpu").await;
    assert_eq!(kubelet.plugin("nvidia.com/gpu").await.devices().await.len(), 2);
    agent.stop().await;
}

#[tokio::test]
async fn cdi_is_described_before_it_is_named() {
    let node = Node { config: "flags: {plugin: {deviceListStrategy: cdi-cri}}".into(), ..Node::new(two_cards()) };
    node.pods(&[pod("a = main: gpu*1>1")]);
    let mut kubelet = node.kubelet().await;
    let agent = node.start();
    kubelet.registered("nvidia.com/gpu").await;
    let response = kubelet.plugin("nvidia.com/gpu").await.allocate(&["GPU-1"]).await.unwrap();
    let name =
        response.cdi_devices[0].name.strip_prefix("k8s.device-plugin.nvidia.com/gpu=").expect("its kind").to_owned();
    let text = fs::read_to_string(node.path("cdi").join(crate::container::CDI_FILE)).unwrap();
    let spec: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(spec["devices"].as_array().unwrap().iter().any(|device| device["name"] == *name));
    agent.stop().await;
}

#[test]
fn a_configuration_is_read_before_anything_starts() {
    let node = Node { config: "flags: {migStrategy: some}".into(), ..Node::new(vec![]) };
    let Err(problem) = Handout::with(node.options(), node.seen.subscribe(), node.pods.subscribe()) else {
        panic!("read")
    };
    assert!(problem.to_string().contains("field flags.migStrategy: unknown value"), "{problem}");
}
