//! Two pods cannot have one host port.

use crate::framework::{Filter, PluginName, Reason, Verdict};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodePorts`.
#[derive(Debug, Clone, Copy)]
pub struct NodePorts;

impl Filter for NodePorts {
    fn name(&self) -> PluginName {
        "NodePorts"
    }
    fn filter(&self, _state: &State, class: &Class, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        let taken = |wanted: &&crate::state::PortKey| node.ports().iter().any(|used| used.conflicts(wanted));
        match class.spec.charge.ports.iter().find(taken) {
            Some(port) => Verdict::unschedulable(Reason::NodePorts { port: port.port }),
            None => Verdict::Pass,
        }
    }
}
