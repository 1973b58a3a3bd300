//! Taints keep pods away that do not tolerate them, or make a node less liked.

use crate::framework::{Filter, PluginName, Reason, Score, ScoreKind, Scoring, Verdict};
use crate::model::Effect;
use crate::state::{Class, NodeFacts, NodeState, State};

/// `TaintToleration`.
#[derive(Debug, Clone, Copy)]
pub struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> PluginName {
        "TaintToleration"
    }
    fn filter(&self, _state: &State, class: &Class, _node: &NodeState, facts: &NodeFacts) -> Verdict {
        let hard = facts.taints().iter().filter(|t| t.effect != Effect::PreferNoSchedule);
        let tolerated = |taint| class.spec.tolerations.iter().any(|t| t.tolerates(taint));
        let mut untolerated = hard.filter(|t| !tolerated(t));
        match untolerated.next() {
            Some(taint) => Verdict::unresolvable(Reason::UntoleratedTaint { key: taint.key }),
            None => Verdict::Pass,
        }
    }
}

impl Score for TaintToleration {
    fn name(&self) -> PluginName {
        "TaintToleration"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::NormalizedReverse
    }
    /// How many `PreferNoSchedule` taints are not tolerated.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let soft = placement.facts.taints().iter().filter(|t| t.effect == Effect::PreferNoSchedule);
        let tolerations = || placement.class.spec.tolerations.iter().filter(|t| t.covers_preference());
        i64::try_from(soft.filter(|taint| !tolerations().any(|t| t.tolerates(taint))).count()).unwrap_or(i64::MAX)
    }
    /// A bare node has no taint.
    fn same_on_twins(&self, _class: &Class) -> bool {
        true
    }
}
