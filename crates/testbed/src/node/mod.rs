//! A real node on this machine: a kubelet and a containerd that join a [`ControlPlane`], for as long as a value lives.
//!
//! They have a mount and a process namespace of their own, with the node's folders over `/var/lib`, `/var/log` and `/run`:
//! every node has the kubelet's fixed paths for itself, several stand side by side, and nothing of one is left when its
//! last process has ended. What the kubelet finds at `/var/lib/kubelet` lies outside at
//! [`kubelet_dir`](RealNode::kubelet_dir), sockets included, so a node agent can run outside, and serve its plugin's
//! socket there. The network and the kernel's settings are the machine's: pods run with `hostNetwork`, and the kubelet
//! changes no setting.
//!
//! It needs root, control groups, and what `scripts/install-node-runtime` installs; see `docs/cluster.md`.
//!
//! ```no_run
//! use gpu_scheduler_testbed::control_plane::{ControlPlane, Options, User};
//! use gpu_scheduler_testbed::node::{RealNode, RealNodeOptions};
//! use gpu_scheduler_testbed::objects::PodObject;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options { users: vec![User::node("n1")], kwok: false, ..Options::default() };
//! let cluster = ControlPlane::start(options).await?;
//! let node = RealNode::start(&cluster, RealNodeOptions::new("n1")).await?;
//! cluster.add_pods([PodObject::new("a").runs().node("n1").build()]).await?;
//! // … once it runs:
//! let container = node.container("default", "a", "main").await?;
//! println!("{:?} in {}", container.env, node.kubelet_dir().display());
//! node.stop()?;
//! # Ok(())
//! # }
//! ```

mod container;
mod containerd;
mod error;
mod image;
mod kubelet;
mod options;
mod programs;
mod surroundings;

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

pub use container::{Container, ContainerDevice, ContainerMount};
pub use error::NodeError;
pub use image::IMAGE;
pub use options::{RealNodeOptions, TopologyManagerPolicy};

use crate::control_plane::process::{Program, log_in};
use crate::control_plane::wait::{PATIENCE, until};
use crate::control_plane::{ControlPlane, ControlPlaneError, User};
use containerd::Containerd;
use kubelet::Kubelet;
use programs::Programs;
use surroundings::Surroundings;

/// Why the kubelet says that a node is ready.
const KUBELET_READY: &str = "KubeletReady";

/// A running node. It ends when this is dropped, with all its containers.
pub struct RealNode {
    // Fields are dropped in this order: what runs inside must have ended before the surroundings go.
    /// `None` after [`kill_kubelet`](Self::kill_kubelet).
    kubelet: Option<Program>,
    containerd: Containerd,
    how_to_start: Kubelet,
    surroundings: Surroundings,
    name: String,
    client: Client,
}

impl fmt::Debug for RealNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RealNode");
        shown.field("name", &self.name).field("folder", &self.folder()).field("processes", &self.processes());
        shown.finish_non_exhaustive()
    }
}

impl RealNode {
    /// Starts a node and returns when it is ready and has no taint.
    ///
    /// The node object is made here, by the administrator: with the labels that are asked for, some of which a kubelet may
    /// not give itself, and with the loopback address, which it would refuse.
    ///
    /// # Errors
    ///
    /// This machine cannot have a node (the error says what is missing), the user `system:node:NAME` has no token, a
    /// node of that name exists, or a program ends or the node does not get ready. Nothing is left running then.
    pub async fn start(cluster: &ControlPlane, options: RealNodeOptions) -> Result<Self, NodeError> {
        let user = rustix::process::geteuid();
        if !user.is_root() {
            return Err(NodeError::NotRoot { uid: user.as_raw() });
        }
        let programs = Programs::find()?;
        let access = cluster.access_for(&User::node(&options.name).name)?;
        let kubernetes = cluster.binaries().kubernetes(kubelet::NAME);
        let surroundings =
            Surroundings::create(kubernetes.parent().expect("a program is in a folder"), options.numa_nodes)?;
        let how_to_start = Kubelet::prepare(&surroundings, &programs, &access, cluster.authority(), &options)?;
        let containerd = Containerd::start(&surroundings, &programs).await?;

        let client = cluster.client();
        let object: Node = serde_json::from_value(json!({
            "metadata": {"name": options.name, "labels": options.labels},
            "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]},
        }))
        .expect("it is a node");
        let what = format!("could not create the node {}", options.name);
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.create(&PostParams::default(), &object).await.map_err(ControlPlaneError::request(what))?;

        let mut node = Self { kubelet: None, containerd, how_to_start, surroundings, name: options.name, client };
        node.run_kubelet().await?;
        Ok(node)
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the node has at `/var/lib/kubelet`: `device-plugins/kubelet.sock`, `pod-resources/kubelet.sock`,
    /// `plugins_registry`, …. Mounts that the kubelet makes below are seen inside only.
    #[must_use]
    pub fn kubelet_dir(&self) -> PathBuf {
        self.surroundings.folder().join("lib/kubelet")
    }

    /// What the node has at `/run`.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.surroundings.folder().join("run")
    }

    /// What the node has at `/var/log`: what containers wrote is below `pods`.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.surroundings.folder().join("log")
    }

    /// The folder of all that the node writes, the same path inside and outside; it is gone with the node.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.surroundings.folder()
    }

    /// The node's control group below the root of each hierarchy; `kubepods` is in it.
    #[must_use]
    pub fn cgroup(&self) -> String {
        self.surroundings.cgroup()
    }

    /// What a program wrote, `kubelet` or `containerd`: all of its runs, one after the other.
    #[must_use]
    pub fn log(&self, program: &str) -> PathBuf {
        log_in(self.folder(), program)
    }

    /// Name and process id of each program that runs, as this process knows them; containers are not among them.
    #[must_use]
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        let programs = [self.kubelet.as_ref(), Some(&self.containerd.program)];
        programs.into_iter().flatten().map(|program| (program.name(), program.pid())).collect()
    }

    /// Kills the kubelet, as a crash does. Containers run on, and its sockets stay where they are, with nobody behind.
    pub fn kill_kubelet(&mut self) {
        self.kubelet = None;
    }

    /// Starts the kubelet in place of one that runs, and waits until it has made the node ready: device plugins can register
    /// then, and pods start.
    ///
    /// # Errors
    ///
    /// It ended, or the node did not get ready.
    pub async fn start_kubelet(&mut self) -> Result<(), NodeError> {
        self.kill_kubelet();
        // The one before may have left the node ready. The kubelet puts its own reason back with its first report; that the
        // node is ready stands meanwhile, so nobody taints it.
        let patch = json!({"status": {"conditions": [{"type": "Ready", "reason": "KubeletStarts"}]}});
        let what = format!("could not change the status of the node {}", self.name);
        self.nodes()
            .patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .map_err(ControlPlaneError::request(what))?;
        self.run_kubelet().await
    }

    /// Asks the kubelet to end, waits until it has, and starts it again, as an upgrade does; starts one that was killed.
    ///
    /// # Errors
    ///
    /// As [`start_kubelet`](Self::start_kubelet).
    pub async fn restart_kubelet(&mut self) -> Result<(), NodeError> {
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.ask_to_end();
            // One that does not end is killed.
            if let Ok(ended) = timeout(PATIENCE, kubelet.wait()).await {
                ended?;
            }
        }
        self.start_kubelet().await
    }

    /// What a container was started with, also of one that has ended and that the kubelet has not removed.
    ///
    /// # Errors
    ///
    /// There is no such pod or container, it has not been started yet, or the kubelet has removed it.
    pub async fn container(&self, namespace: &str, pod: &str, container: &str) -> Result<Container, NodeError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("could not read the pod {namespace}/{pod}");
        let object = pods.get(pod).await.map_err(ControlPlaneError::request(what))?;
        let id = container_id(&object, container).ok_or_else(|| NodeError::NoContainer {
            pod: format!("{namespace}/{pod}"),
            container: container.to_owned(),
        })?;
        let spec = self.containerd.ctr(&["containers", "info", "--spec", &id]).await?;
        Container::parse(&id, &spec)
    }

    /// An error if the kubelet or containerd has ended by itself.
    ///
    /// # Errors
    ///
    /// The first that has, with the end of its log.
    pub fn check(&mut self) -> Result<(), NodeError> {
        self.containerd.program.check()?;
        Ok(self.kubelet.as_mut().map_or(Ok(()), Program::check)?)
    }

    /// Ends the node with all its containers, as dropping it does, and says what could not be taken away.
    ///
    /// The node object stays, as that of a machine that lost power does.
    ///
    /// # Errors
    ///
    /// A control group or the folder is left.
    pub fn stop(self) -> Result<(), NodeError> {
        let Self { kubelet, containerd, surroundings, .. } = self;
        drop(kubelet);
        drop(containerd);
        surroundings.remove()
    }

    async fn run_kubelet(&mut self) -> Result<(), NodeError> {
        let program = self.how_to_start.start(&self.surroundings)?;
        let nodes = self.nodes();
        // Kept before the node is ready: whoever drops the future still has a kubelet that can be killed.
        let program = self.kubelet.insert(program);
        let what = format!("the node {} to be ready and without taints", self.name);
        let ready = tokio::select! {
            ready = until(&nodes, &self.name, &what, is_ready) => ready.map(drop),
            // That it has ended is said by the check below.
            ended = program.wait() => ended.map(drop),
        };
        program.check()?;
        ready.map_err(|error| match error {
            ControlPlaneError::Waited { what, patience, last } => {
                let last = format!("{last}. The end of the kubelet's log:\n{}", program.end_of_log());
                ControlPlaneError::Waited { what, patience, last }
            }
            other => other,
        })?;
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready =
        |c: &NodeCondition| c.type_ == "Ready" && c.status == "True" && c.reason.as_deref() == Some(KUBELET_READY);
    let tainted = node.spec.iter().any(|spec| spec.taints.as_ref().is_some_and(|taints| !taints.is_empty()));
    conditions.any(ready) && !tainted
}

/// containerd's id of a container of any kind.
fn container_id(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let kinds = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let mut statuses = kinds.into_iter().flatten().flatten();
    let id = statuses.find(|status| status.name == container)?.container_id.as_deref()?;
    Some(id.strip_prefix("containerd://")?.to_owned())
}
