//! A control plane, a real node with described cards, the scheduler and the node's agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use gpu_scheduler_agent::podresources;
use gpu_scheduler_cluster::allocation;
use gpu_scheduler_nvml_mock::{Installation, Node as Description};
use gpu_scheduler_testbed::agent::{Agent, Cards};
use gpu_scheduler_testbed::checker::{Checker, Rules};
use gpu_scheduler_testbed::control_plane::wait::{PATIENCE, until};
use gpu_scheduler_testbed::control_plane::{ControlPlane, Options, User};
use gpu_scheduler_testbed::deploy::{self, RECORD};
use gpu_scheduler_testbed::node::{Container, RealNode, RealNodeOptions};
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::scheduler::{Scheduler, check_journals, check_traces};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tempfile::TempDir;

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_gpu-scheduler");

const CONFIG: &str = "apiVersion: gpu-scheduler.io/v1alpha1
kind: SchedulerConfiguration
leaderElection: {leaderElect: false}
";

/// The node's name.
pub const NODE: &str = "n1";

/// A node under test, on a cluster of its own.
pub struct Bed {
    // Fields are dropped in this order: what writes into a folder goes first.
    pub agent: Option<Agent>,
    pub scheduler: Option<Scheduler>,
    pub node: RealNode,
    pub cluster: ControlPlane,
    pub checker: Checker,
    /// The cards, as they are described.
    pub described: Description,
    installation: Installation,
    pub folder: TempDir,
}

impl Bed {
    /// With a scheduler and an agent on a node with one of the shipped sets of cards.
    pub async fn start(cards: &str) -> Self {
        Self::with(shipped(cards)).await
    }

    /// With other cards.
    pub async fn with(described: Description) -> Self {
        let mut bed = Self::without_agent(described, RealNodeOptions::new(NODE)).await;
        bed.start_agent(&[]).await;
        bed
    }

    /// The same before there is an agent.
    pub async fn without_agent(described: Description, mut options: RealNodeOptions) -> Self {
        // What devices there are is on the API server within a second, not ten.
        options.kubelet_config.insert("nodeStatusUpdateFrequency".to_owned(), "1s".into());
        let users = vec![User::node(NODE)];
        let cluster = ControlPlane::start(Options { kwok: false, users, ..Options::default() }).await.unwrap();
        let installation = Installation::new(&described).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (node, access) = tokio::join!(RealNode::start(&cluster, options), deploy::install(&cluster));
        let node = node.unwrap();
        deploy::install_agent(&cluster).await.unwrap();
        access.unwrap().write_kubeconfig(&folder.path().join("scheduler.kubeconfig")).unwrap();
        let agent = cluster.access_on_node(deploy::AGENT, deploy::AGENT, NODE).await.unwrap();
        agent.write_kubeconfig(&folder.path().join("agent.kubeconfig")).unwrap();
        fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
        let checker = Checker::start(cluster.client(), Rules::default());
        let mut bed = Self { agent: None, scheduler: None, node, cluster, checker, described, installation, folder };
        bed.write_cards();
        bed.start_scheduler();
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes the cards under the agent.
    pub fn change_cards(&mut self, change: impl FnOnce(&mut Description)) {
        change(&mut self.described);
        self.installation.write(&self.described).unwrap();
        self.write_cards();
    }

    fn write_cards(&self) {
        let cards = self.cards();
        self.installation.write_roots(&cards.sysfs, &cards.procfs).unwrap();
    }

    /// What an agent is told of the cards.
    pub fn cards(&self) -> Cards {
        Cards {
            nvml: self.installation.library(),
            sysfs: self.path("sys"),
            procfs: self.path("proc"),
            root: PathBuf::from("/"),
        }
    }

    pub fn start_scheduler(&mut self) {
        let (kubeconfig, config) = (self.path("scheduler.kubeconfig"), self.path("config.yaml"));
        self.scheduler =
            Some(Scheduler::start(Path::new(BINARY), "scheduler", &kubeconfig, &config, self.folder.path()));
    }

    /// Starts an agent that looks at its cards each second, and waits until kubelet offers what it has.
    pub async fn start_agent(&mut self, more: &[&str]) {
        self.run_agent(more, &[]);
        self.node_until("kubelet to offer cards", |node| allocatable(node).iter().any(|(_, count)| *count > 0)).await;
        self.reported().await;
    }

    /// Starts an agent, and waits for nothing.
    pub fn run_agent(&mut self, more: &[&str], variables: &[(&str, &str)]) {
        let looks: &[&str] = if more.contains(&"--interval") { &[] } else { &["--interval", "1"] };
        let more = [looks, more].concat();
        let kubeconfig = self.path("agent.kubeconfig");
        // A measurement may name an optimised one.
        let binary = env::var_os("AGENT_BINARY").map_or_else(|| BINARY.into(), PathBuf::from);
        let folder = self.folder.path();
        self.agent = Some(Agent::start(&binary, &self.node, &self.cards(), &kubeconfig, folder, &more, variables));
    }

    /// Waits until the agent's report is on the API server.
    pub async fn reported(&self) {
        let what = "the agent's report";
        until(&self.states(), NODE, what, |state| state.data["status"]["devices"].is_array()).await.unwrap();
    }

    pub fn states(&self) -> Api<DynamicObject> {
        deploy::node_states(self.client())
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "default")
    }

    /// Waits until the node is so.
    pub async fn node_until(&self, what: &str, holds: impl Fn(&Node) -> bool) -> Node {
        until(&Api::<Node>::all(self.client()), NODE, what, holds).await.unwrap()
    }

    /// Labels the node.
    pub async fn label(&self, name: &str, value: &str) {
        let patch = json!({"metadata": {"labels": {name: value}}});
        Api::<Node>::all(self.client()).patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until kubelet offers so many of a resource.
    pub async fn offers(&self, resource: &str, count: u64) {
        let of = |node: &Node| allocatable(node).into_iter().find(|(name, _)| name == resource).map_or(0, |(_, n)| n);
        self.node_until(&format!("kubelet to offer {count} of {resource}"), |node| of(node) == count).await;
    }

    /// Creates pods as users do.
    pub async fn create(&self, pods: impl IntoIterator<Item = Pod>) {
        let api = self.pods();
        let create = |pod: Pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod).await.unwrap() }
        };
        futures::future::join_all(pods.into_iter().map(create)).await;
    }

    /// Waits until a pod runs.
    pub async fn runs(&self, pod: &str) -> Pod {
        until(&self.pods(), pod, &format!("{pod} to run"), |pod| is_running(pod) || has_failed(pod)).await.map_or_else(
            |error| panic!("{error}"),
            |pod| {
                assert!(!has_failed(&pod), "{} failed: {:?}", pod.name_any(), pod.status);
                pod
            },
        )
    }

    /// Deletes a pod and waits until it is gone from its node.
    pub async fn delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::default().grace_period(0)).await.unwrap();
        gpu_scheduler_testbed::control_plane::wait::until_gone(&self.pods(), pod).await.unwrap();
    }

    /// The devices of a running container as the record has them: the ledger's record, the container's environment and kubelet's books
    /// name the same ones.
    pub async fn devices(&self, pod: &str, container: &str) -> Vec<String> {
        let recorded = self.recorded(pod, container).await;
        let container_sees = visible(&self.node.container("default", pod, container).await.unwrap());
        let booked = self.booked(pod, container).await;
        let set = |devices: &[String]| devices.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(set(&container_sees), set(&recorded), "{pod}: what the container sees, and the record");
        assert_eq!(set(&booked), set(&recorded), "{pod}: kubelet's books, and the record");
        assert_eq!((booked.len(), container_sees.len()), (recorded.len(), recorded.len()), "{pod}");
        recorded
    }

    /// What the record says.
    pub async fn recorded(&self, pod: &str, container: &str) -> Vec<String> {
        let pod = self.pods().get(pod).await.unwrap();
        let record = allocation::parse(&pod.annotations()[RECORD]).unwrap();
        let containers = record.containers.into_iter().filter(|it| it.name == container);
        let devices = containers.flat_map(|it| it.devices);
        devices.map(|device| device.mig.unwrap_or(device.uuid)).collect()
    }

    /// What kubelet says.
    pub async fn booked(&self, pod: &str, container: &str) -> Vec<String> {
        let socket = self.node.kubelet_dir().join("pod-resources/kubelet.sock");
        let listed = podresources::list(&socket).await.unwrap();
        let own = listed.into_iter().filter(|it| it.name == pod && it.container == container);
        own.flat_map(|it| it.ids).map(|id| id.device.to_string()).collect()
    }

    /// No card is held by two pods that ask for it whole, by kubelet's own list.
    pub async fn nothing_is_given_twice(&self, resource: &str) {
        let socket = self.node.kubelet_dir().join("pod-resources/kubelet.sock");
        let listed = podresources::list(&socket).await.unwrap();
        let mut held = BTreeSet::new();
        for entry in listed.iter().filter(|entry| entry.resource.as_str() == resource) {
            for id in &entry.ids {
                assert!(held.insert(id.device.to_string()), "{id:?} is given twice: {listed:?}");
            }
        }
    }

    /// Waits until an event on a pod has this reason; what it says.
    pub async fn told(&self, pod: &str, reason: &str) -> String {
        use futures::StreamExt;
        use kube::runtime::{WatchStreamExt, watcher};
        let config = watcher::Config::default().fields(&format!("involvedObject.name={pod},reason={reason}"));
        let api: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(self.client(), "default");
        let mut events = Box::pin(watcher(api, config).applied_objects());
        let told = async { events.next().await.unwrap().unwrap().message.unwrap_or_default() };
        tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("{pod} was not told {reason}"))
    }

    /// Nothing that must not happen has happened, and nobody asked for what its account may not do.
    pub async fn check(&mut self) {
        self.check_after_outage().await;
        check_traces(Path::new(BINARY), self.folder.path());
    }

    /// The same where the API server was restarted: before it has read its roles it forbids everything.
    pub async fn check_after_outage(&mut self) {
        let verdict = self.checker.verdict().await;
        assert!(verdict.violations.is_empty(), "{verdict:#?}");
        self.node.check().unwrap();
        check_journals(Path::new(BINARY), self.folder.path());
    }
}

/// A pod with whole cards that runs until it is deleted.
pub fn whole(name: &str, cards: u32) -> Pod {
    PodObject::new(name).gpus(cards).runs().build()
}

/// A pod with a share of a card.
pub fn share(name: &str, memory: &str) -> Pod {
    PodObject::new(name).limit("gpu-scheduler/memory", memory).runs().build()
}

/// One of the nodes that are shipped with the described library.
pub fn shipped(name: &str) -> Description {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nvml-mock/nodes").join(name).with_extension("yaml");
    Description::parse(&fs::read_to_string(file).unwrap()).unwrap()
}

/// What a container is told of its devices.
pub fn visible(container: &Container) -> Vec<String> {
    let value = container.env.get("NVIDIA_VISIBLE_DEVICES").map_or("", String::as_str);
    value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// NVIDIA's resources that kubelet offers.
pub fn allocatable(node: &Node) -> Vec<(String, u64)> {
    let resources = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
    let own = resources.filter(|(name, _)| name.starts_with("nvidia.com/"));
    own.map(|(name, quantity)| (name.clone(), quantity.0.parse().unwrap())).collect()
}

pub fn is_running(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.is_some_and(|all| all.iter().all(|it| it.state.as_ref().is_some_and(|state| state.running.is_some())))
}

pub fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"))
}
