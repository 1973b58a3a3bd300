//! Plugins whose answer for a node depends on what is elsewhere: on other pods, on volumes, on all images.
//!
//! Their answers cannot be kept until the node changes, so they are asked in every cycle, and only about nodes that
//! all kept filters let through. What a plugin works out once per cycle is its *cycle state*, as in Kubernetes'
//! framework.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::framework::{Candidate, PluginName, Profile, Reason, Rejection, Verdict};
use crate::model::{Cost, NodeId, VolumePlan};
use crate::state::{Class, NodeFacts, NodeState, State};

/// A plugin that looks at the whole cluster. It may filter, score, or both.
pub trait CyclePlugin: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// Looks at the cluster once for a pod of `class`; `None` if it has nothing to say about any node (Kubernetes'
    /// `Skip`), which is what it should say of most pods.
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>>;
}

/// What a plugin knows during one cycle.
pub trait CycleState {
    /// Why no node at all will do; what could be freed would not help.
    fn pre_filter(&self) -> Option<Reason> {
        None
    }
    /// Whether `node` will do.
    fn filter(&self, _node: &NodeState, _facts: &NodeFacts) -> Verdict {
        Verdict::Pass
    }
    /// What the pod takes of volumes on `node`, which was chosen: it is assumed with the placement.
    fn plan(&self, _node: &NodeState, _facts: &NodeFacts) -> Option<VolumePlan> {
        None
    }
    /// Points from 0 to 100 for each of the nodes that will do, more is better; `None` if it does not tell them apart.
    fn score(&self, _feasible: &[(NodeId, &NodeState)]) -> Option<Vec<i64>> {
        None
    }
}

/// A plugin with what it is asked for.
#[derive(Debug)]
pub(crate) struct Cyclic {
    pub plugin: Box<dyn CyclePlugin>,
    pub filters: bool,
    /// Its weight, if it scores.
    pub weight: Option<i64>,
}

/// One cycle: what the plugins that have something to say know.
pub(crate) struct Cycle<'a> {
    states: Vec<(&'a Cyclic, Box<dyn CycleState + 'a>)>,
}

impl Profile {
    /// Begins a cycle.
    pub(crate) fn begin_cycle<'a>(&'a self, state: &'a State, class: &'a Class) -> Cycle<'a> {
        let states = self.cyclic().iter().filter_map(|c| Some((c, c.plugin.begin(state, class)?)));
        Cycle { states: states.collect() }
    }
}

impl Cycle<'_> {
    /// Whether nobody has anything to say.
    pub fn is_silent(&self) -> bool {
        self.states.is_empty()
    }

    /// Why no node at all will do, and who says so.
    pub fn pre_filter(&self) -> Option<(PluginName, Reason)> {
        let filtering = self.states.iter().filter(|(c, _)| c.filters);
        filtering.filter_map(|(c, s)| Some((c.plugin.name(), s.pre_filter()?))).next()
    }

    /// What the first plugin that says no says.
    pub fn reject(&self, node: &NodeState) -> Option<Rejection> {
        let facts = node.facts()?;
        self.states.iter().filter(|(c, _)| c.filters).find_map(|(c, s)| match s.filter(node, facts) {
            Verdict::Pass => None,
            Verdict::Reject { permanent, reasons } => Some(Rejection { plugin: c.plugin.name(), permanent, reasons }),
        })
    }

    /// What is planned for volumes on a node.
    pub fn plan(&self, node: &NodeState) -> Option<VolumePlan> {
        let facts = node.facts()?;
        self.states.iter().filter(|(c, _)| c.filters).find_map(|(_, s)| s.plan(node, facts))
    }

    /// What the scores add to the cost of each node, in the order of `feasible`.
    pub fn costs(&self, profile: &Profile, feasible: &[(NodeId, &NodeState)]) -> Vec<Cost> {
        let mut costs = vec![Cost(0); feasible.len()];
        for (cyclic, state) in &self.states {
            let Some(weight) = cyclic.weight else { continue };
            let Some(points) = state.score(feasible) else { continue };
            for (cost, points) in costs.iter_mut().zip(points) {
                *cost += -profile.points(points, weight);
            }
        }
        costs
    }

    /// What each scoring plugin says of each node, by name.
    pub fn points(&self, feasible: &[(NodeId, &NodeState)]) -> Vec<(PluginName, i64, Vec<i64>)> {
        let scoring = self.states.iter().filter_map(|(c, s)| Some((c.plugin.name(), c.weight?, s.score(feasible)?)));
        scoring.collect()
    }
}

/// Candidates that a cycle lets through, in slot order, and why others fell out.
#[derive(Debug, Default)]
pub(crate) struct Sifted<'a> {
    pub feasible: Vec<(NodeId, &'a Candidate)>,
    pub extra: Vec<Cost>,
    pub rejected: BTreeMap<NodeId, Rejection>,
}

/// Asks a cycle about candidates, given in slot order. `O(candidates)`.
pub(crate) fn sift<'a>(
    profile: &Profile,
    state: &State,
    cycle: &Cycle<'_>,
    barred: BTreeMap<NodeId, Rejection>,
    candidates: impl Iterator<Item = (NodeId, &'a Candidate)>,
) -> Sifted<'a> {
    let mut sifted = Sifted { rejected: barred, ..Sifted::default() };
    let mut nodes = Vec::new();
    for (id, candidate) in candidates {
        let Some(node) = state.node(id).filter(|_| !sifted.rejected.contains_key(&id)) else { continue };
        match cycle.reject(node) {
            Some(rejection) => drop(sifted.rejected.insert(id, rejection)),
            None => {
                sifted.feasible.push((id, candidate));
                nodes.push((id, node));
            }
        }
    }
    // One node needs no score.
    sifted.extra = if nodes.len() > 1 { cycle.costs(profile, &nodes) } else { vec![Cost(0); nodes.len()] };
    sifted
}
