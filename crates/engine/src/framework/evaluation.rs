//! One class on one node: will it do, on which card, at what cost.

use smallvec::SmallVec;

use crate::framework::{PluginName, PreFiltered, Profile, Reason, Rejection, ScoreKind, Scoring, Selection, Verdict};
use crate::ledger::{Card, CardChoice, Headroom, Placement, Shortage, place, share_candidates};
use crate::model::{Cost, GpuShape};
use crate::state::{Class, GroupId, NodeFacts, NodeState, State, pinned};

/// What a profile says of a class on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluation {
    /// It will do.
    Candidate(Candidate),
    /// It will not.
    Rejected(Rejection),
}

/// A node that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its cost, but for scores that are scaled by the other candidates and for what its group costs.
    pub cost: Cost,
    /// The node's group.
    pub group: Option<GroupId>,
    /// Which card.
    pub choice: CardChoice,
    /// Scores to be scaled, in the order of the profile's plugins.
    pub raw: SmallVec<[i64; 2]>,
}

/// One plugin's part of a cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreTerm {
    /// The plugin.
    pub plugin: PluginName,
    /// What it said of the placement.
    pub score: i64,
    /// What it said of the node's group, in thousandths of a milli-GPU.
    pub group_cost: i64,
    /// How that is read.
    pub kind: ScoreKind,
    /// Its weight.
    pub weight: i64,
}

/// The cards that a class accepts.
pub(crate) fn eligible<'a>(state: &'a State, class: &'a Class) -> impl Fn(&Card) -> bool + 'a {
    let models = state.models().matching(class.spec.pattern);
    move |card| models.contains(card.model()) && pinned(&class.spec.gpu, card)
}

/// The cards for a class on a node, by the profile's own way of choosing.
pub(crate) fn find_cards(
    state: &State,
    class: &Class,
    node: &NodeState,
    choice: CardChoice,
) -> Result<Placement, Shortage> {
    if class.spec.gpu.is_none() {
        return Ok(Placement::default());
    }
    place(&class.spec.gpu, node.ledger(), eligible(state, class), choice, node.topology_manager())
}

impl Profile {
    /// What this profile says of `class` on `node`: `O(plugins)`, and `O(typical shapes * cards)` for
    /// policies that look at fragments. `None` for a node that does not exist any more.
    pub fn evaluate(&self, state: &State, class: &Class, pre: &PreFiltered, node: &NodeState) -> Option<Evaluation> {
        self.evaluate_by(state, class, pre, node, |node| self.score(state, class, node))
    }

    /// As [`Profile::evaluate`], with what [`Profile::score`] says by other means.
    pub(crate) fn evaluate_by<'a>(
        &self,
        state: &State,
        class: &Class,
        pre: &PreFiltered,
        node: &'a NodeState,
        score: impl FnOnce(&'a NodeState) -> Option<Candidate>,
    ) -> Option<Evaluation> {
        let facts = node.facts()?;
        if let Some(rejection) = self.check(state, class, pre, node, facts) {
            return Some(Evaluation::Rejected(rejection));
        }
        score(node).map(Evaluation::Candidate)
    }

    /// The cost of `class` on a node that the filters let it onto.
    pub(crate) fn score(&self, state: &State, class: &Class, node: &NodeState) -> Option<Candidate> {
        let facts = node.facts()?;
        let mut best: Option<Candidate> = None;
        for choice in self.choices(state, class, node) {
            // The GPU filter has just found cards, so this finds them too.
            let Ok(placement) = find_cards(state, class, node, choice) else { continue };
            let after = self.headroom_after(class, node, &placement);
            let scoring =
                Scoring { state, class, node, facts, placement: &placement, before: node.headroom(), after: &after };
            let mut candidate = Candidate { cost: Cost(0), group: node.group(), choice, raw: SmallVec::new() };
            for scorer in self.scorers() {
                let score = scorer.plugin.score(&scoring);
                match scorer.plugin.kind() {
                    ScoreKind::Cost => candidate.cost += Cost(score).times(scorer.weight),
                    ScoreKind::Points => candidate.cost += -self.points(score, scorer.weight),
                    ScoreKind::Normalized | ScoreKind::NormalizedReverse => candidate.raw.push(score),
                }
            }
            if best.as_ref().is_none_or(|b| candidate.cost < b.cost) {
                best = Some(candidate);
            }
        }
        // Cards of one node are told apart exactly, nodes only by steps.
        best.map(|candidate| Candidate { cost: self.coarse(state, candidate.cost), ..candidate })
    }

    /// What the first filter that says no to `class` on `node` says.
    pub(crate) fn rejection(
        &self,
        state: &State,
        class: &Class,
        pre: &PreFiltered,
        node: &NodeState,
    ) -> Option<Rejection> {
        self.check(state, class, pre, node, node.facts()?)
    }

    /// Whether the filters let `class` onto `node`.
    pub fn admits(&self, state: &State, class: &Class, pre: &PreFiltered, node: &NodeState) -> bool {
        node.facts().is_some_and(|facts| self.check(state, class, pre, node, facts).is_none())
    }

    /// The single scores of a candidate, for people.
    pub fn terms(&self, state: &State, class: &Class, node: &NodeState, choice: CardChoice) -> Vec<ScoreTerm> {
        let (Some(facts), Ok(placement)) = (node.facts(), find_cards(state, class, node, choice)) else {
            return Vec::new();
        };
        let after = self.headroom_after(class, node, &placement);
        let scoring =
            Scoring { state, class, node, facts, placement: &placement, before: node.headroom(), after: &after };
        let term = |s: &crate::framework::profile::Scorer| ScoreTerm {
            plugin: s.plugin.name(),
            score: s.plugin.score(&scoring),
            group_cost: node.group().map_or(0, |group| s.plugin.group_cost(state, class, group)),
            kind: s.plugin.kind(),
            weight: s.weight,
        };
        self.scorers().iter().map(term).collect()
    }

    fn check(
        &self,
        state: &State,
        class: &Class,
        pre: &PreFiltered,
        node: &NodeState,
        facts: &NodeFacts,
    ) -> Option<Rejection> {
        match &pre.selection {
            Selection::All => {}
            Selection::Only(names) if names.binary_search(&node.symbol()).is_ok() => {}
            Selection::Only(_) => {
                let plugins = pre.plugins.clone();
                return rejection("PreFilter", Verdict::unresolvable(Reason::Excluded { plugins }));
            }
            Selection::Reject(reason) => return rejection("PreFilter", Verdict::unresolvable(reason.clone())),
        }
        self.filters().iter().find_map(|f| rejection(f.name(), f.filter(state, class, node, facts)))
    }

    /// The cards to try: each that fits for policies that choose the card by its cost, else the one with
    /// the smallest remainder.
    fn choices(&self, state: &State, class: &Class, node: &NodeState) -> SmallVec<[CardChoice; 8]> {
        if self.weighs_cards()
            && let GpuShape::Share { count: 1, .. } = class.spec.shape
            && let Some(cards) = share_candidates(&class.spec.gpu, node.ledger(), eligible(state, class))
        {
            // Cards in equal state cost the same: the first stands for all.
            let ledger = node.ledger().cards();
            let mut seen: SmallVec<[_; 8]> = SmallVec::new();
            let mut choices = SmallVec::new();
            for at in cards {
                let card = &ledger[usize::from(at)];
                let state = (card.model(), card.memory(), card.room().clone());
                if !seen.contains(&state) {
                    seen.push(state);
                    choices.push(CardChoice::Only(at));
                }
            }
            return choices;
        }
        SmallVec::from_iter([CardChoice::SmallestRemainder])
    }

    fn headroom_after(&self, class: &Class, node: &NodeState, placement: &Placement) -> Headroom {
        let requests = &class.spec.charge.requests;
        let peaks = placement.peaks(&class.spec.gpu);
        node.headroom().after(node.ledger(), &peaks, requests.cpu, requests.memory)
    }
}

fn rejection(plugin: PluginName, verdict: Verdict) -> Option<Rejection> {
    match verdict {
        Verdict::Pass => None,
        Verdict::Reject { permanent, reasons } => Some(Rejection { plugin, permanent, reasons }),
    }
}
