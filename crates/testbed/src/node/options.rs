//! What a real node is made of.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

pub use gpu_scheduler_engine::model::TopologyManagerPolicy;
use serde_json::{Map, Value};

/// What node to start.
///
/// ```
/// use gpu_scheduler_testbed::node::{RealNodeOptions, TopologyManagerPolicy};
///
/// let options = RealNodeOptions {
///     topology_manager_policy: TopologyManagerPolicy::SingleNumaNode,
///     ..RealNodeOptions::new("n1")
/// };
/// assert_eq!(options.name, "n1");
/// ```
#[derive(Debug, Clone)]
pub struct RealNodeOptions {
    /// The node's name. [`Options::users`](crate::control_plane::Options::users) of the control plane must have
    /// [`User::node`](crate::control_plane::User::node) of it: that is who the kubelet is.
    pub name: String,
    /// Labels of the node object, beside those that the kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// NUMA nodes that the kubelet finds; `None`: the machine's own. Cards of a described node have theirs from its
    /// description, and the kubelet ignores those that it does not know.
    pub numa_nodes: Option<NonZeroU8>,
    /// How the kubelet aligns what it gives a pod to NUMA nodes.
    pub topology_manager_policy: TopologyManagerPolicy,
    /// Further top-level fields of the `KubeletConfiguration`; they win over ours.
    pub kubelet_config: Map<String, Value>,
}

impl RealNodeOptions {
    /// A node without labels, with the kubelet's own defaults.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            numa_nodes: None,
            topology_manager_policy: TopologyManagerPolicy::default(),
            kubelet_config: Map::new(),
        }
    }
}
