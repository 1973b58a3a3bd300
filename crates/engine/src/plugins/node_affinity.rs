//! `nodeSelector` and node affinity.

use crate::framework::{Filter, PluginName, PreFilter, Reason, Score, ScoreKind, Scoring, Selection, Verdict};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodeAffinity`.
#[derive(Debug, Clone, Copy)]
pub struct NodeAffinity;

impl PreFilter for NodeAffinity {
    fn name(&self) -> PluginName {
        "NodeAffinity"
    }
    /// Terms that all name their node narrow the search to these nodes.
    fn pre_filter(&self, _state: &State, class: &Class) -> Selection {
        match class.spec.selector.only_nodes() {
            None => Selection::All,
            Some(names) if names.is_empty() => Selection::Reject(Reason::AffinityConflict),
            Some(names) => Selection::Only(names),
        }
    }
}

impl Filter for NodeAffinity {
    fn name(&self) -> PluginName {
        "NodeAffinity"
    }
    fn filter(&self, state: &State, class: &Class, node: &NodeState, facts: &NodeFacts) -> Verdict {
        if class.spec.selector.matches(state.symbols(), node.symbol(), |key| facts.label(key)) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(Reason::NodeAffinity)
        }
    }
}

impl Score for NodeAffinity {
    fn name(&self) -> PluginName {
        "NodeAffinity"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Normalized
    }
    /// Sum of the weights of matching preferred terms.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let (symbols, node) = (placement.state.symbols(), placement.node.symbol());
        let label = |key| placement.facts.label(key);
        let preferred = placement.class.spec.preferred.iter();
        preferred.filter(|(_, term)| term.matches(symbols, node, label)).map(|(weight, _)| weight).sum()
    }
    fn same_on_twins(&self, class: &Class) -> bool {
        class.spec.preferred.is_empty()
    }
}
