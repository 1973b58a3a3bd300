//! Evaluations of a class, kept until a node changes.
//!
//! A class asks the same question for each of its pods, and most nodes give the answer they gave before.
//! The cache brings itself up to date in the order in which nodes changed, a bounded number of
//! evaluations at a time: an interrupted search goes on where it was, and a node that changed meanwhile
//! is simply evaluated again. So the cost of a decision follows what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::framework::twins::Twins;
use crate::framework::{Candidate, Evaluation, PreFiltered, Profile, Rejection, ScoreKind};
use crate::model::{ClassId, Cost, NodeId};
use crate::state::{Class, GroupId, State};

/// Evaluations kept over all classes; the least recently used class goes first.
const MAX_EVALUATIONS: usize = 12_000_000;

/// One class's evaluations.
#[derive(Debug)]
pub(crate) struct ClassCache {
    pub pre: PreFiltered,
    /// All changes up to this generation are in.
    synced: u64,
    epoch: u64,
    verdict_epoch: u64,
    /// While scores are brought up to date: slots before this one are.
    rescored: Option<usize>,
    evaluations: Vec<Option<Evaluation>>,
    /// Candidates by group, cheapest first: the first of each group are all that can win.
    by_group: BTreeMap<Option<GroupId>, BTreeSet<(Cost, NodeId)>>,
    /// Candidates with a score that has to be scaled by the others.
    scaled: usize,
    used: u64,
    /// The message for the state at `synced`.
    pub message: Option<Arc<str>>,
}

impl ClassCache {
    fn new(profile: &Profile, state: &State, class: &Class) -> Self {
        Self {
            pre: profile.pre_filter(state, class),
            synced: 0,
            epoch: profile.epoch(state),
            verdict_epoch: profile.verdict_epoch(state),
            rescored: None,
            evaluations: Vec::new(),
            by_group: BTreeMap::new(),
            scaled: 0,
            used: 0,
            message: None,
        }
    }

    /// Brings the cache up to date; returns whether it is. Spends a step a node, more for a class that takes a
    /// search.
    pub fn refresh(&mut self, profile: &Profile, state: &State, class: &Class, steps: &mut u32) -> bool {
        let verdict_epoch = profile.verdict_epoch(state);
        if self.verdict_epoch != verdict_epoch {
            self.verdict_epoch = verdict_epoch;
            self.pre = profile.pre_filter(state, class);
            self.synced = 0;
        }
        let epoch = profile.epoch(state);
        if self.epoch != epoch {
            self.epoch = epoch;
            self.rescored = Some(0);
        }
        self.evaluations.resize(state.node_slots(), None);
        let mut twins = Twins::new(profile, state, class);
        self.rescore(&mut twins, state, class, steps) && self.evaluate_changed(&mut twins, profile, state, class, steps)
    }

    /// Scores anew what was a candidate, after scores have changed: what the filters said still holds, and nodes
    /// that changed since are evaluated in full afterwards.
    fn rescore<'a>(&mut self, twins: &mut Twins<'a>, state: &'a State, class: &Class, steps: &mut u32) -> bool {
        let Some(from) = self.rescored else { return true };
        for at in from..self.evaluations.len() {
            if !matches!(self.evaluations[at], Some(Evaluation::Candidate(_))) {
                continue;
            }
            let id = NodeId::from_index(at);
            let Some(node) = state.node(id).filter(|n| n.generation() <= self.synced) else { continue };
            if *steps == 0 {
                self.rescored = Some(at);
                return false;
            }
            *steps = steps.saturating_sub(class.effort());
            let fresh = twins.score(node).map(Evaluation::Candidate);
            self.replace(id, fresh);
        }
        self.rescored = None;
        true
    }

    fn evaluate_changed<'a>(
        &mut self,
        twins: &mut Twins<'a>,
        profile: &Profile,
        state: &'a State,
        class: &Class,
        steps: &mut u32,
    ) -> bool {
        for (generation, id) in state.changed_since(self.synced) {
            if *steps == 0 {
                return false;
            }
            *steps = steps.saturating_sub(class.effort());
            self.message = None;
            let score = |node| twins.score(node);
            let fresh = state.node(id).and_then(|node| profile.evaluate_by(state, class, &self.pre, node, score));
            self.replace(id, fresh);
            self.synced = generation;
        }
        true
    }

    fn replace(&mut self, id: NodeId, fresh: Option<Evaluation>) {
        // Many a score stays what it was: then the order does too.
        if self.evaluations[id.index()] == fresh {
            return;
        }
        self.unlist(id);
        self.evaluations[id.index()] = fresh;
        self.list(id);
    }

    fn unlist(&mut self, id: NodeId) {
        if let Some(Evaluation::Candidate(candidate)) = &self.evaluations[id.index()] {
            self.scaled -= usize::from(candidate.raw.iter().any(|r| *r != 0));
            if let Some(nodes) = self.by_group.get_mut(&candidate.group) {
                nodes.remove(&(candidate.cost, id));
                if nodes.is_empty() {
                    self.by_group.remove(&candidate.group);
                }
            }
        }
    }

    fn list(&mut self, id: NodeId) {
        if let Some(Evaluation::Candidate(candidate)) = &self.evaluations[id.index()] {
            self.scaled += usize::from(candidate.raw.iter().any(|r| *r != 0));
            self.by_group.entry(candidate.group).or_default().insert((candidate.cost, id));
        }
    }

    /// The evaluations of live nodes, in slot order.
    pub fn evaluations(&self) -> impl Iterator<Item = &Evaluation> {
        self.evaluations.iter().flatten()
    }

    /// Nodes that the kept filters let through, in slot order.
    pub fn candidates(&self) -> impl Iterator<Item = (NodeId, &Candidate)> + Clone {
        candidates(&self.evaluations)
    }

    /// A node as a candidate.
    pub fn candidate(&self, node: NodeId) -> Option<&Candidate> {
        match self.evaluations.get(node.index())?.as_ref()? {
            Evaluation::Candidate(candidate) => Some(candidate),
            Evaluation::Rejected(_) => None,
        }
    }

    /// Why a node is none.
    pub fn rejection(&self, node: NodeId) -> Option<&Rejection> {
        match self.evaluations.get(node.index())?.as_ref()? {
            Evaluation::Candidate(_) => None,
            Evaluation::Rejected(rejection) => Some(rejection),
        }
    }

    /// The cheapest node; among equals the first. `O(groups)`, or `O(nodes)` where scores are scaled by other
    /// candidates or differ by decision.
    pub fn best(&self, profile: &Profile, state: &State, class: &Class, decision: u64) -> Option<(NodeId, &Candidate)> {
        if self.scaled > 0 || profile.varies() {
            return best(profile, state, class, decision, self.candidates(), &[]);
        }
        let firsts = self.by_group.iter().filter_map(|(group, nodes)| {
            let (cost, id) = nodes.first()?;
            Some((*cost + profile.group_cost(state, class, *group), *id))
        });
        let (_, id) = firsts.min()?;
        match self.evaluations[id.index()].as_ref()? {
            Evaluation::Candidate(candidate) => Some((id, candidate)),
            Evaluation::Rejected(_) => None,
        }
    }
}

fn candidates(evaluations: &[Option<Evaluation>]) -> impl Iterator<Item = (NodeId, &Candidate)> + Clone {
    evaluations.iter().enumerate().filter_map(|(at, evaluation)| match evaluation {
        Some(Evaluation::Candidate(candidate)) => Some((NodeId::from_index(at), candidate)),
        _ => None,
    })
}

/// The cheapest of `candidates`, which come in slot order, each with its `extra` cost if there are any; among equals
/// the first.
pub(crate) fn best<'a>(
    profile: &Profile,
    state: &State,
    class: &Class,
    decision: u64,
    candidates: impl Iterator<Item = (NodeId, &'a Candidate)> + Clone,
    extra: &[Cost],
) -> Option<(NodeId, &'a Candidate)> {
    let scaled: Vec<_> = profile
        .scorers()
        .iter()
        .filter(|s| matches!(s.plugin.kind(), ScoreKind::Normalized | ScoreKind::NormalizedReverse))
        .collect();
    let mut largest = vec![0_i64; scaled.len()];
    for (_, candidate) in candidates.clone() {
        for (largest, raw) in largest.iter_mut().zip(&candidate.raw) {
            *largest = (*largest).max(*raw);
        }
    }
    let varying: Vec<_> = profile.scorers().iter().filter(|s| s.plugin.varies()).collect();
    let mut group_costs: BTreeMap<Option<GroupId>, Cost> = BTreeMap::new();
    for (_, candidate) in candidates.clone() {
        group_costs.entry(candidate.group).or_insert_with(|| profile.group_cost(state, class, candidate.group));
    }
    let total = |(at, (id, candidate)): &(usize, (NodeId, &Candidate))| {
        let mut cost = candidate.cost
            + extra.get(*at).copied().unwrap_or_default()
            + group_costs.get(&candidate.group).copied().unwrap_or_default();
        for ((scorer, raw), largest) in scaled.iter().zip(&candidate.raw).zip(&largest) {
            // Where nobody scores, all are equal and nothing needs adding.
            if *largest > 0 {
                let points = 100 * raw / largest;
                let points = if scorer.plugin.kind() == ScoreKind::NormalizedReverse { 100 - points } else { points };
                cost += -profile.points(points, scorer.weight);
            }
        }
        for scorer in &varying {
            cost += Cost(scorer.plugin.per_decision(decision, *id)).times(scorer.weight);
        }
        cost
    };
    // `min_by_key` keeps the first of equals.
    candidates.enumerate().min_by_key(total).map(|(_, best)| best)
}

/// The caches of all classes that are asked about.
#[derive(Debug, Default)]
pub(crate) struct ClassCaches {
    caches: BTreeMap<ClassId, ClassCache>,
    clock: u64,
}

impl ClassCaches {
    /// The cache of a class, made if there is none.
    pub fn of(&mut self, profile: &Profile, state: &State, class: &Class) -> &mut ClassCache {
        self.clock += 1;
        if !self.caches.contains_key(&class.id) {
            self.make_room(state.node_slots());
        }
        let cache = self.caches.entry(class.id).or_insert_with(|| ClassCache::new(profile, state, class));
        cache.used = self.clock;
        cache
    }

    /// The cache of a class, if there is one.
    pub fn peek(&self, class: ClassId) -> Option<&ClassCache> {
        self.caches.get(&class)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.caches.clear();
    }

    /// Forgets classes that died, before their ids are used again.
    pub fn forget(&mut self, dead: &[ClassId]) {
        for class in dead {
            self.caches.remove(class);
        }
    }

    fn make_room(&mut self, nodes: usize) {
        while self.caches.len() > 1 && (self.caches.len() + 1) * nodes > MAX_EVALUATIONS {
            let oldest = self.caches.iter().min_by_key(|(_, c)| c.used).map(|(id, _)| *id);
            if let Some(id) = oldest {
                self.caches.remove(&id);
            }
        }
    }
}
