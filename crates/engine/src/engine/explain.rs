//! Why: a full look at one pod, from scratch. It uses no cache, so it is also what decisions are tested
//! against.

use std::sync::Arc;

use crate::engine::{Engine, profile_for};
use crate::framework::{Evaluation, PreFiltered, Rejection, ScoreTerm, best};
use crate::ledger::CardChoice;
use crate::model::{Allocation, Cost, NodeId, PodName, PodUid};
use crate::queue::Place;
use crate::state::Stage;

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
            self.explain_nodes(entry.class, &mut explanation);
        }
        Some(explanation)
    }

    fn explain_nodes(&self, class: crate::model::ClassId, explanation: &mut Explanation) {
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
        let name = |id: NodeId| self.state.node(id).map(|n| n.name().clone()).unwrap_or_default();
        explanation.best = best(profile, &self.state, class, self.decisions + 1, candidates).map(|(id, _)| name(id));
        for (id, evaluation) in evaluated {
            let verdict = match evaluation {
                Evaluation::Rejected(rejection) => NodeVerdict::Rejected(rejection),
                Evaluation::Candidate(candidate) => NodeVerdict::Candidate {
                    cost: candidate.cost,
                    choice: candidate.choice,
                    terms: self
                        .state
                        .node(id)
                        .map(|n| profile.terms(&self.state, class, n, candidate.choice))
                        .unwrap_or_default(),
                },
            };
            explanation.nodes.push(NodeExplanation { node: name(id), verdict });
        }
    }
}
