//! Features that a pod cannot do without, and kubelet has to declare (KEP-5328).

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict};
use crate::model::Symbol;
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodeDeclaredFeatures`. Its answer could be kept; it stands with those that cannot because it comes last in
/// kube-scheduler's order, and the first plugin that says no gives the reason.
#[derive(Debug, Clone, Copy)]
pub struct NodeDeclaredFeatures;

impl CyclePlugin for NodeDeclaredFeatures {
    fn name(&self) -> PluginName {
        "NodeDeclaredFeatures"
    }
    fn begin<'a>(&self, _state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        (!class.spec.node_features.is_empty()).then(|| Box::new(Needed(&class.spec.node_features)) as _)
    }
}

struct Needed<'a>(&'a [Symbol]);

impl CycleState for Needed<'_> {
    fn filter(&self, _node: &NodeState, facts: &NodeFacts) -> Verdict {
        if self.0.iter().all(|feature| facts.features().binary_search(feature).is_ok()) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(Reason::NodeFeatures)
        }
    }
}
