//! A pod that names its node gets that one or none.

use crate::framework::{Filter, PluginName, PreFilter, Reason, Selection, Verdict};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodeName`.
#[derive(Debug, Clone, Copy)]
pub struct NodeName;

impl PreFilter for NodeName {
    fn name(&self) -> PluginName {
        "NodeName"
    }
    fn pre_filter(&self, _state: &State, class: &Class) -> Selection {
        class.spec.required_node.map_or(Selection::All, |name| Selection::Only(vec![name]))
    }
}

impl Filter for NodeName {
    fn name(&self) -> PluginName {
        "NodeName"
    }
    fn filter(&self, _state: &State, class: &Class, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        match class.spec.required_node {
            Some(name) if name != node.symbol() => Verdict::unresolvable(Reason::NodeName),
            _ => Verdict::Pass,
        }
    }
}
