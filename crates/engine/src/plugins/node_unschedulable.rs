//! Cordoned nodes take nothing, but from pods that tolerate the taint that stands for it.

use crate::framework::{Filter, PluginName, Reason, Verdict};
use crate::model::{CompiledTaint, Effect};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodeUnschedulable`.
#[derive(Debug, Clone, Copy)]
pub struct NodeUnschedulable;

impl Filter for NodeUnschedulable {
    fn name(&self) -> PluginName {
        "NodeUnschedulable"
    }
    fn filter(&self, state: &State, class: &Class, _node: &NodeState, facts: &NodeFacts) -> Verdict {
        if !facts.unschedulable() {
            return Verdict::Pass;
        }
        let (key, value) = state.cordon_taint();
        let cordon = CompiledTaint { key, value, effect: Effect::NoSchedule };
        if class.spec.tolerations.iter().any(|t| t.tolerates(&cordon)) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(Reason::NodeUnschedulable)
        }
    }
}
