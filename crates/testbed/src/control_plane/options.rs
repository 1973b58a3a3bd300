//! What a control plane is made of.

use std::collections::BTreeMap;

/// What to start. The default is etcd, the API server, the controller manager and kwok, of the newest minor.
///
/// ```
/// use gpu_scheduler_testbed::control_plane::{KubeScheduler, Options};
///
/// let options = Options { kube_scheduler: Some(KubeScheduler::default()), ..Options::default() };
/// assert!(options.kwok && options.controller_manager && !options.static_nodes);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The minor of Kubernetes, `1.37`. `None`: what `KUBERNETES_MINOR` in the environment says, else the newest there is.
    pub minor: Option<String>,
    /// Whether the controller manager runs: service accounts, garbage collection, taints of nodes.
    ///
    /// Without it the API server takes pods without a service account, and new nodes are not tainted.
    pub controller_manager: bool,
    /// Whether kwok runs: it keeps simulated nodes ready and makes bound pods on them run.
    pub kwok: bool,
    /// Whether simulated nodes do with pods what kubelets do: before a deleted pod goes, its preStop hook and its grace period
    /// take their time and its containers end, and a finalizer holds it; a node offers what its capacity says. Needs kwok.
    ///
    /// Otherwise a deleted pod goes at once, and a change of a node's capacity changes nothing.
    pub like_kubelets: bool,
    /// Whether nodes are what they were created as: nobody taints them and nobody watches their heartbeat.
    ///
    /// For benchmarks without kwok, and for thousands of nodes whose heartbeats would cost more than what is measured.
    pub static_nodes: bool,
    /// Kubernetes' own scheduler, as a baseline and for pods that are not ours.
    pub kube_scheduler: Option<KubeScheduler>,
    /// Whether the API server serves as fast as it can, without limits in flight and without fairness.
    pub load_test: bool,
    /// Feature gates of the API server, the controller manager and the scheduler.
    pub feature_gates: BTreeMap<String, bool>,
    /// Further arguments of the API server; they win over ours.
    pub api_server_args: Vec<String>,
    /// Users besides the administrator. Each gets a token; what it may do is up to RBAC and its groups.
    pub users: Vec<User>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            minor: None,
            controller_manager: true,
            kwok: true,
            like_kubelets: false,
            static_nodes: false,
            kube_scheduler: None,
            load_test: false,
            feature_gates: BTreeMap::new(),
            api_server_args: Vec::new(),
            users: Vec::new(),
        }
    }
}

impl Options {
    /// For benchmarks: nodes that stay as created, nothing that runs pods, no limits in the API server.
    #[must_use]
    pub fn load_test() -> Self {
        Self { kwok: false, static_nodes: true, load_test: true, ..Self::default() }
    }

    /// `--feature-gates=…`, if any is set.
    pub(super) fn feature_gates_arg(&self) -> Option<String> {
        if self.feature_gates.is_empty() {
            return None;
        }
        let gates: Vec<String> = self.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        Some(format!("--feature-gates={}", gates.join(",")))
    }
}

/// How Kubernetes' own scheduler runs.
#[derive(Debug, Clone)]
pub struct KubeScheduler {
    /// Requests a second that it allows itself, and in a burst. Its own default of 50 and 100 is what would be measured.
    pub qps: u32,
    /// The rest of its `KubeSchedulerConfiguration`, as top-level YAML: `profiles`, `percentageOfNodesToScore`, ….
    pub config: String,
    /// Further arguments, such as `-v=2`.
    pub args: Vec<String>,
}

impl Default for KubeScheduler {
    fn default() -> Self {
        Self { qps: 5000, config: String::new(), args: Vec::new() }
    }
}

/// Somebody who may talk to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, such as `alice` or `system:node:n1`.
    pub name: String,
    /// The groups, such as `system:nodes`.
    pub groups: Vec<String>,
}

impl User {
    /// A user in groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|&g| g.to_owned()).collect() }
    }

    /// The kubelet of a node.
    pub fn node(node: &str) -> Self {
        Self::new(&format!("system:node:{node}"), &["system:nodes"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_one_argument_in_the_order_of_their_names() {
        let gates = [("B".to_owned(), false), ("A".to_owned(), true)];
        let options = Options { feature_gates: gates.into(), ..Options::default() };
        assert_eq!(options.feature_gates_arg().as_deref(), Some("--feature-gates=A=true,B=false"));
        assert_eq!(Options::default().feature_gates_arg(), None);
    }
}
