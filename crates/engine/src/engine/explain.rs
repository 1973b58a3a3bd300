//! Why: a full look at one pod, from scratch. It uses no cache, so it is also what decisions are tested
//! against.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::cycle::barred;
use crate::engine::{Engine, profile_for};
use crate::framework::{Evaluation, PreFiltered, Profile, Rejection, ScoreKind, ScoreTerm, best, sift};
use crate::ledger::CardChoice;
use crate::model::{Allocation, ClassId, Cost, NodeId, PodId, PodName, PodUid};
use crate::queue::Place;
use crate::state::{Class, Stage};

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodPhase {
    /// It is bound, or being bound, here.
    Placed {
        /// The node.
        node: Arc<str>,
        /// Its devices.
        allocation: Allocation,
        /// Whether the bind is a fact.
        bound: bool,
        /// Whether the devices are a guess.
        guessed: bool,
    },
    /// It waits.
    Waiting(Place),
    /// It is being deleted before it was ever placed.
    Terminating,
}

/// What one node says of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeVerdict {
    /// It would do.
    Candidate {
        /// Its cost, but for scores that are scaled by the other candidates.
        cost: Cost,
        /// Which card.
        choice: CardChoice,
        /// What each plugin said.
        terms: Vec<ScoreTerm>,
    },
    /// It would not.
    Rejected(Rejection),
}

/// One node's part of an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeExplanation {
    /// The node.
    pub node: Arc<str>,
    /// What it says.
    pub verdict: NodeVerdict,
}

/// Everything about one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Its name.
    pub pod: PodName,
    /// What becomes of it.
    pub phase: PodPhase,
    /// The text last written onto it.
    pub message: Option<Arc<str>>,
    /// How often it was tried.
    pub attempts: u32,
    /// What each node would say if it were tried now; empty for pods that are placed or not ours.
    pub nodes: Vec<NodeExplanation>,
    /// The node that it would get now.
    pub best: Option<Arc<str>>,
}

impl Engine {
    /// Everything about a pod, worked out afresh: `O(nodes)`. `None` for a pod that is not known.
    pub fn explain(&self, uid: &PodUid) -> Option<Explanation> {
        let entry = self.state.pod_of(uid)?;
        let waiting = self.queue.get(entry.id);
        let phase = match (&entry.placed, waiting) {
            (Some(placed), _) => PodPhase::Placed {
                node: self.state.node(placed.node)?.name().clone(),
                allocation: placed.allocation.clone(),
                bound: placed.stage == Stage::Bound,
                guessed: placed.guessed,
            },
            (None, Some(waiting)) => PodPhase::Waiting(waiting.place),
            (None, None) => PodPhase::Terminating,
        };
        let mut explanation = Explanation {
            pod: entry.name.clone(),
            phase,
            message: waiting.and_then(|w| w.message.clone()),
            attempts: waiting.map_or(0, |w| w.attempts),
            nodes: Vec::new(),
            best: None,
        };
        if entry.placed.is_none() && waiting.is_some() {
            self.explain_nodes(entry.id, entry.class, &mut explanation);
        }
        Some(explanation)
    }

    /// Nodes with room that is kept for other pods. It is tried on a copy of the state, where there is any such node.
    fn kept_for_others(&self, profile: &Profile, class: &Class, pod: PodId) -> BTreeMap<NodeId, Rejection> {
        let nominated: Vec<NodeId> = self.state.nominations().collect();
        if nominated.is_empty() {
            return BTreeMap::new();
        }
        barred(&mut self.state.clone(), profile, class, pod, nominated)
    }

    fn explain_nodes(&self, pod: PodId, class: ClassId, explanation: &mut Explanation) {
        let class = self.state.class(class);
        let Some(profile) = profile_for(&self.profiles, class) else { return };
        let pre: PreFiltered = profile.pre_filter(&self.state, class);
        let evaluated: Vec<(NodeId, Evaluation)> = self
            .state
            .live_nodes()
            .filter_map(|n| Some((n.id(), profile.evaluate(&self.state, class, &pre, n)?)))
            .collect();
        let candidates = evaluated.iter().filter_map(|(id, e)| match e {
            Evaluation::Candidate(candidate) => Some((*id, candidate)),
            Evaluation::Rejected(_) => None,
        });
        let cycle = profile.begin_cycle(&self.state, class);
        let mut sifted = sift(profile, &self.state, &cycle, self.kept_for_others(profile, class, pod), candidates);
        if let Some((plugin, reason)) = cycle.pre_filter() {
            for (id, _) in sifted.feasible.drain(..) {
                let reasons = SmallVec::from_iter([reason.clone()]);
                sifted.rejected.insert(id, Rejection { plugin, permanent: true, reasons });
            }
        }
        let feasible = sifted.feasible.iter().map(|(id, candidate)| (*id, *candidate));
        let name = |id: NodeId| self.state.node(id).map(|n| n.name().clone()).unwrap_or_default();
        explanation.best =
            best(profile, &self.state, class, self.decisions + 1, feasible, &sifted.extra).map(|(id, _)| name(id));
        let rejected = sifted.rejected;
        let places: Vec<_> = sifted.feasible.iter().filter_map(|(id, _)| Some((*id, self.state.node(*id)?))).collect();
        let points = cycle.points(&places);
        let late = |id: NodeId| {
            let at = places.iter().position(|(place, _)| *place == id);
            points.iter().filter_map(move |(plugin, weight, points)| {
                let (plugin, score, kind, weight) = (*plugin, *points.get(at?)?, ScoreKind::Points, *weight);
                Some(ScoreTerm { plugin, score, group_cost: 0, kind, weight })
            })
        };
        for (id, evaluation) in evaluated {
            let verdict = match evaluation {
                Evaluation::Candidate(_) if rejected.contains_key(&id) => NodeVerdict::Rejected(rejected[&id].clone()),
                Evaluation::Rejected(rejection) => NodeVerdict::Rejected(rejection),
                Evaluation::Candidate(candidate) => NodeVerdict::Candidate {
                    cost: candidate.cost,
                    choice: candidate.choice,
                    terms: self
                        .state
                        .node(id)
                        .map(|n| profile.terms(&self.state, class, n, candidate.choice))
                        .unwrap_or_default()
                        .into_iter()
                        .chain(late(id))
                        .collect(),
                },
            };
            explanation.nodes.push(NodeExplanation { node: name(id), verdict });
        }
    }
}
