//! Pods that want to be together, or apart.

use std::collections::BTreeMap;

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict};
use crate::model::{NodeId, Symbol};
use crate::plugins::domains::Domains;
use crate::plugins::go_float;
use crate::state::{AffinityTerm, Class, Kin, NodeFacts, NodeState, Relations, State};

/// What a required affinity of a pod that is there counts when the other one comes (`hardPodAffinityWeight`).
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// `InterPodAffinity`. Both sides count: what a pod wants of those that are there, and what these want of it.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity;

impl CyclePlugin for InterPodAffinity {
    fn name(&self) -> PluginName {
        "InterPodAffinity"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        if !state.kins().matter() {
            return None;
        }
        let kin = state.kins().get(class.spec.kin);
        let own = class.spec.relations.as_deref().filter(|r| r.has_pod_affinity());
        // Classes that want something of pods like this one, by slot.
        let minding =
            |c: &&std::sync::Arc<Class>| c.spec.relations.iter().flat_map(|r| r.terms()).any(|t| t.matches(state, kin));
        let others: Vec<&Class> = state.affine_classes().filter(minding).map(|c| &**c).collect();
        if own.is_none() && others.is_empty() {
            return None;
        }
        let mut topology = Topology { state, domains: BTreeMap::new() };
        let wants = own.map(|own| Wants::new(&mut topology, own, kin));
        let theirs = Theirs::new(&mut topology, &others, kin);
        let preferred = own.map_or(&[][..], |own| &own.preferred);
        let points = Points::new(&mut topology, preferred, &others, kin);
        Some(Box::new(Affinity { domains: topology.domains, wants, theirs, points }))
    }
}

/// Domains by label, each worked out once.
struct Topology<'a> {
    state: &'a State,
    domains: BTreeMap<Symbol, Domains>,
}

impl Topology<'_> {
    fn of(&mut self, key: Symbol) -> &Domains {
        let state = self.state;
        self.domains.entry(key).or_insert_with(|| Domains::new(state, key))
    }

    /// By domain of `key`: how much `weigh` says of its nodes in all.
    fn sum(&mut self, key: Symbol, weigh: impl Fn(&NodeState) -> i64) -> Sum {
        let state = self.state;
        let domains = self.of(key);
        let mut sum = vec![0; domains.len()];
        let mut any = false;
        for node in state.live_nodes() {
            if let Some(domain) = domains.of(node.id()) {
                let weight = weigh(node);
                sum[domain] += weight;
                any |= weight != 0;
            }
        }
        Sum { key, by_domain: sum, any }
    }
}

/// Something summed up over the domains of a label.
struct Sum {
    key: Symbol,
    by_domain: Vec<i64>,
    /// Whether anything was found at all.
    any: bool,
}

impl Sum {
    /// `None` where the node lacks the label.
    fn at(&self, domains: &BTreeMap<Symbol, Domains>, node: NodeId) -> Option<i64> {
        let domain = domains.get(&self.key)?.of(node)?;
        Some(self.by_domain[domain])
    }
}

/// Pods on a node that `matches` by kin; those that are being deleted are there still.
fn pods(node: &NodeState, matches: &[bool]) -> i64 {
    node.kin().iter().filter(|k| matches[k.kin.index()]).map(|k| i64::from(k.pods)).sum()
}

/// What the pod requires.
struct Wants {
    /// For each term, pods that match all terms together.
    affinity: Vec<Sum>,
    /// Whether it may be the first one: it matches its own terms.
    matches_itself: bool,
    anti_affinity: Vec<Sum>,
}

impl Wants {
    fn new(topology: &mut Topology<'_>, own: &Relations, kin: &Kin) -> Self {
        let state = topology.state;
        let all = |kin: &Kin| own.affinity.iter().all(|t| t.matches(state, kin));
        let together = state.kins().matching(all);
        let affinity = own.affinity.iter().map(|t| topology.sum(t.topology, |node| pods(node, &together))).collect();
        let apart = |term: &AffinityTerm| {
            let matching = state.kins().matching(|kin| term.matches(state, kin));
            topology.sum(term.topology, |node| pods(node, &matching))
        };
        let anti_affinity = own.anti_affinity.iter().map(apart).collect();
        Self { affinity, matches_itself: all(kin), anti_affinity }
    }

    fn affinity_holds(&self, domains: &BTreeMap<Symbol, Domains>, node: NodeId) -> bool {
        let mut found = true;
        for sum in &self.affinity {
            match sum.at(domains, node) {
                None => return false,
                Some(pods) => found &= pods > 0,
            }
        }
        found || (self.matches_itself && self.affinity.iter().all(|sum| !sum.any))
    }
}

/// What pods that are there require of this one: where they want to be apart from it.
struct Theirs(Vec<Sum>);

impl Theirs {
    fn new(topology: &mut Topology<'_>, others: &[&Class], kin: &Kin) -> Self {
        let mut sums = Vec::new();
        for class in others {
            for term in class.spec.relations.iter().flat_map(|r| &r.anti_affinity) {
                if term.matches(topology.state, kin) {
                    sums.push(topology.sum(term.topology, |node| of_class(node, class)));
                }
            }
        }
        Self(sums)
    }
}

/// Pods of `class` on a node.
fn of_class(node: &NodeState, class: &Class) -> i64 {
    node.affine().binary_search_by_key(&class.id, |a| a.0).map_or(0, |at| i64::from(node.affine()[at].1))
}

/// What both sides had rather, by label.
struct Points(Vec<Sum>);

impl Points {
    fn new(topology: &mut Topology<'_>, own: &[(i64, AffinityTerm)], others: &[&Class], kin: &Kin) -> Self {
        let state = topology.state;
        let mut sums = Vec::new();
        for (weight, term) in own {
            let matching = state.kins().matching(|kin| term.matches(state, kin));
            sums.push(topology.sum(term.topology, |node| weight * pods(node, &matching)));
        }
        for class in others {
            let Some(relations) = &class.spec.relations else { continue };
            let required = relations.affinity.iter().map(|term| (HARD_AFFINITY_WEIGHT, term));
            for (weight, term) in required.chain(relations.preferred.iter().map(|(w, t)| (*w, t))) {
                if term.matches(state, kin) {
                    sums.push(topology.sum(term.topology, |node| weight * of_class(node, class)));
                }
            }
        }
        sums.retain(|sum| sum.any);
        Self(sums)
    }
}

struct Affinity {
    domains: BTreeMap<Symbol, Domains>,
    wants: Option<Wants>,
    theirs: Theirs,
    points: Points,
}

impl CycleState for Affinity {
    fn filter(&self, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        let crowded = |sums: &[Sum]| sums.iter().any(|sum| sum.at(&self.domains, node.id()).is_some_and(|n| n > 0));
        if self.wants.as_ref().is_some_and(|w| !w.affinity_holds(&self.domains, node.id())) {
            return Verdict::unresolvable(Reason::PodAffinity);
        }
        if self.wants.as_ref().is_some_and(|w| crowded(&w.anti_affinity)) {
            return Verdict::unschedulable(Reason::PodAntiAffinity);
        }
        if crowded(&self.theirs.0) {
            return Verdict::unschedulable(Reason::ExistingPodsAntiAffinity);
        }
        Verdict::Pass
    }

    fn score(&self, feasible: &[(NodeId, &NodeState)]) -> Option<Vec<i64>> {
        if self.points.0.is_empty() {
            return None;
        }
        let raw = |id: NodeId| self.points.0.iter().filter_map(|sum| sum.at(&self.domains, id)).sum::<i64>();
        let raw: Vec<i64> = feasible.iter().map(|(id, _)| raw(*id)).collect();
        let (min, max) = (raw.iter().min().copied()?, raw.iter().max().copied()?);
        Some(raw.iter().map(|n| go_float::scaled(100, n - min, max - min)).collect())
    }
}
