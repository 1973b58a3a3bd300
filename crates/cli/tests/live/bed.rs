//! A control plane, a checker, and schedulers as processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_scheduler_testbed::checker::{Checker, Rules};
use gpu_scheduler_testbed::control_plane::wait::{PATIENCE, until};
use gpu_scheduler_testbed::control_plane::{Access, ControlPlane, Options};
use gpu_scheduler_testbed::deploy;
use gpu_scheduler_testbed::objects::NodeObject;
pub use gpu_scheduler_testbed::objects::{node_of, waiting};
use gpu_scheduler_testbed::proxy::Proxy;
pub use gpu_scheduler_testbed::scheduler::Scheduler;
use gpu_scheduler_testbed::scheduler::{check_journals, check_traces};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tempfile::TempDir;
use tokio::time::timeout;

/// Times of elections in tests: a takeover takes seconds, and a renewal has ten tries.
const CONFIG: &str = "apiVersion: gpu-scheduler.io/v1alpha1
kind: SchedulerConfiguration
leaderElection: {resourceNamespace: gpu-scheduler, leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 300ms}
";

/// The scheduler under test.
const BINARY: &str = env!("CARGO_BIN_EXE_gpu-scheduler");

/// How long a Lease lasts by [`CONFIG`].
pub const LEASE: Duration = Duration::from_secs(4);

/// A cluster under test.
pub struct Bed {
    pub cluster: ControlPlane,
    pub checker: Checker,
    /// The service account of `deploy/`: schedulers run with its rights, never with an administrator's.
    access: Access,
    folder: TempDir,
}

impl Bed {
    /// With so many nodes `n1`, `n2`, … of eight cards.
    pub async fn start(nodes: usize) -> Self {
        Self::with(nodes, Options::default(), Rules::default()).await
    }

    /// With options.
    pub async fn with(nodes: usize, options: Options, rules: Rules) -> Self {
        // Nobody makes them ready where nobody plays their part.
        let is_static = options.static_nodes;
        let cluster = ControlPlane::start(options).await.expect("a control plane");
        let node = |n| NodeObject::new(&format!("n{n}"));
        let nodes = (1..=nodes).map(|n| if is_static { node(n).ready().build() } else { node(n).build() });
        cluster.add_nodes(nodes).await.expect("nodes");
        let checker = Checker::start(cluster.client(), rules);
        let access = deploy::install(&cluster).await.expect("the manifests of deploy/");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("config.yaml"), CONFIG).expect("a configuration");
        let bed = Self { cluster, checker, access, folder };
        bed.access.write_kubeconfig(&bed.kubeconfig()).expect("a kubeconfig");
        bed
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), "default")
    }

    /// Adds to the configuration of schedulers that start from now on.
    #[cfg(feature = "otlp")]
    pub fn configure(&self, more: &str) {
        std::fs::write(self.folder.path().join("config.yaml"), format!("{CONFIG}{more}")).expect("a configuration");
    }

    /// Schedulers that start from now on elect by Kubernetes' own times: none loses its lease on a machine that is busy.
    pub fn elect_slowly(&self) {
        let text = CONFIG.lines().filter(|line| !line.starts_with("leaderElection"));
        let text: Vec<&str> = text.chain(["leaderElection: {resourceNamespace: gpu-scheduler}"]).collect();
        std::fs::write(self.folder.path().join("config.yaml"), text.join("\n")).expect("a configuration");
    }

    /// Starts a scheduler; returns at once.
    pub fn scheduler(&self, name: &str) -> Scheduler {
        self.scheduler_at(name, &self.kubeconfig())
    }

    /// Starts a scheduler that talks to the API server through a proxy.
    pub fn scheduler_through(&self, name: &str, proxy: &Proxy) -> Scheduler {
        self.scheduler_at(name, &self.kubeconfig_through(name, proxy))
    }

    /// A scheduler's way to the API server through a proxy.
    pub fn kubeconfig_through(&self, name: &str, proxy: &Proxy) -> PathBuf {
        let kubeconfig = self.folder.path().join(format!("{name}.kubeconfig"));
        proxy.access(&self.access).write_kubeconfig(&kubeconfig).expect("a kubeconfig");
        kubeconfig
    }

    /// Starts a scheduler with another way to the API server.
    pub fn scheduler_at(&self, name: &str, kubeconfig: &Path) -> Scheduler {
        self.scheduler_in(name, kubeconfig, &[])
    }

    /// Starts a scheduler in an environment with these variables, too.
    pub fn scheduler_in(&self, name: &str, kubeconfig: &Path, environment: &[(&str, String)]) -> Scheduler {
        let (config, folder) = (self.folder.path().join("config.yaml"), self.folder.path());
        Scheduler::start_in(Path::new(BINARY), name, kubeconfig, &config, folder, environment)
    }

    /// The scheduler's way to the API server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("scheduler.kubeconfig")
    }

    /// Waits until a pod is bound; its node.
    pub async fn bound(&self, pod: &str) -> String {
        let pod = until(&self.pods(), pod, "a pod to be bound", |p| node_of(p).is_some()).await.expect("it is bound");
        node_of(&pod).expect("it has a node").to_owned()
    }

    /// Waits until a pod says why it waits; the message.
    pub async fn waits(&self, pod: &str) -> String {
        let what = "a pod to say why it waits";
        let pod = until(&self.pods(), pod, what, |p| waiting(p).is_some()).await.expect("it says why");
        waiting(&pod).expect("it says why")
    }

    /// Waits until so many pods of the default namespace are bound.
    pub async fn bound_pods(&self, count: usize) {
        let seen = std::sync::Mutex::new(std::collections::BTreeSet::new());
        let counted = async {
            use futures::StreamExt;
            let mut events = Box::pin(watcher(self.pods(), watcher::Config::default()).default_backoff());
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { continue };
                let mut seen = seen.lock().expect("no panic while it is held");
                if node_of(&pod).is_some() {
                    seen.insert(pod.metadata.uid.unwrap_or_default());
                }
                if seen.len() >= count {
                    return;
                }
            }
        };
        let ended = timeout(PATIENCE, counted).await;
        let seen = seen.lock().expect("no panic while it was held").len();
        assert!(ended.is_ok(), "{seen} pods are bound, not {count}");
    }

    /// Deletes a pod at once.
    pub async fn delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::default().grace_period(0)).await.expect("it can be deleted");
    }

    /// All pods.
    pub async fn all_pods(&self) -> Vec<Pod> {
        self.pods().list(&ListParams::default()).await.expect("pods can be listed").items
    }

    /// Nothing that must not happen has happened, no scheduler has asked for what its account may not do, and every journal
    /// replays.
    pub async fn check(&self) {
        self.check_pods().await;
        check_traces(Path::new(BINARY), self.folder.path());
    }

    /// [`check`](Self::check) where an API server was restarted: it forbids everything until it has read its roles.
    pub async fn check_after_restart(&self) {
        self.check_pods().await;
        check_journals(Path::new(BINARY), self.folder.path());
    }

    async fn check_pods(&self) {
        let verdict = self.checker.verdict().await;
        assert!(verdict.violations.is_empty(), "{verdict:#?}");
    }
}

/// Waits until a replica other than this one leads; its identity.
pub async fn holder(bed: &Bed, other_than: &str) -> String {
    let leases = Api::<Lease>::namespaced(bed.client(), deploy::NAMESPACE);
    let of = |lease: &Lease| lease.spec.as_ref().and_then(|s| s.holder_identity.clone()).unwrap_or_default();
    let what = "another replica to hold the lease";
    let lease =
        until(&leases, "gpu-scheduler", what, |l| !of(l).is_empty() && of(l) != other_than).await.expect("one leads");
    of(&lease)
}
