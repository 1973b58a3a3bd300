//! What a pod's class wants of other pods, compiled.

use smallvec::SmallVec;

use crate::model::{
    CompiledLabels, NodeInclusionPolicy, Pod, PodAffinityTerm, Symbol, Symbols, TopologySpreadConstraint,
    WhenUnsatisfiable,
};
use crate::state::State;
use crate::state::kin::Kin;

/// A term of pod (anti-)affinity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AffinityTerm {
    /// Which pods.
    pub selector: CompiledLabels,
    /// In these namespaces, sorted …
    namespaces: SmallVec<[Symbol; 1]>,
    /// … and in those that have such labels.
    namespace_selector: Option<CompiledLabels>,
    /// The label whose value is the domain.
    pub topology: Symbol,
}

impl AffinityTerm {
    fn new(term: &PodAffinityTerm, own_namespace: &str, symbols: &mut Symbols) -> Self {
        let mut namespaces: SmallVec<[Symbol; 1]> = term.namespaces.iter().map(|n| symbols.intern(n)).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(symbols.intern(own_namespace));
        }
        namespaces.sort_unstable();
        let selector = term.namespace_selector.as_ref();
        Self {
            selector: CompiledLabels::new(term.selector.as_ref(), symbols),
            namespaces,
            namespace_selector: selector.map(|s| CompiledLabels::new(Some(s), symbols)),
            topology: symbols.intern(&term.topology_key),
        }
    }

    /// Whether it is about pods of this kin.
    pub fn matches(&self, state: &State, kin: &Kin) -> bool {
        let by_labels = |s: &CompiledLabels| {
            let labels = state.namespace_labels(kin.namespace);
            s.matches(state.symbols(), |key| super::kin::value(labels, key))
        };
        (self.namespaces.contains(&kin.namespace) || self.namespace_selector.as_ref().is_some_and(by_labels))
            && self.selector.matches(state.symbols(), |key| kin.label(key))
    }
}

/// A topology spread constraint. It counts pods of the pod's own namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SpreadConstraint {
    /// How far domains may differ.
    pub max_skew: i64,
    /// The label whose values are the domains.
    pub topology: Symbol,
    /// Which pods are counted.
    pub selector: CompiledLabels,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: usize,
    /// Whether node affinity leaves nodes out.
    pub honors_affinity: bool,
    /// Whether taints leave nodes out.
    pub honors_taints: bool,
}

impl SpreadConstraint {
    fn new(constraint: &TopologySpreadConstraint, pod: &Pod, symbols: &mut Symbols) -> Self {
        let mut selector = CompiledLabels::new(constraint.selector.as_ref(), symbols);
        let own = pod.labels.iter().filter(|(key, _)| constraint.match_label_keys.contains(key));
        let own = crate::model::LabelSelector::of_labels(own);
        if !own.requirements.is_empty() {
            selector = selector.and(CompiledLabels::new(Some(&own), symbols));
        }
        Self {
            max_skew: constraint.max_skew.into(),
            topology: symbols.intern(&constraint.topology_key),
            selector,
            min_domains: usize::try_from(constraint.min_domains).unwrap_or(1).max(1),
            honors_affinity: constraint.node_affinity_policy == NodeInclusionPolicy::Honor,
            honors_taints: constraint.node_taints_policy == NodeInclusionPolicy::Honor,
        }
    }
}

/// All that a class wants of other pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Relations {
    /// Required affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred affinity with its weight, and anti-affinity with its weight negated.
    pub preferred: Vec<(i64, AffinityTerm)>,
    /// Spread constraints that must hold.
    pub hard_spread: Vec<SpreadConstraint>,
    /// Spread constraints that had better hold.
    pub soft_spread: Vec<SpreadConstraint>,
}

impl Relations {
    /// `None` where the pod wants nothing of others.
    pub(super) fn compile(pod: &Pod, symbols: &mut Symbols) -> Option<Self> {
        let mut terms = |terms: &[PodAffinityTerm]| -> Vec<AffinityTerm> {
            terms.iter().map(|t| AffinityTerm::new(t, &pod.namespace, symbols)).collect()
        };
        let (affinity, anti_affinity) = (terms(&pod.pod_affinity.required), terms(&pod.pod_anti_affinity.required));
        let mut preferred = Vec::new();
        for (sign, side) in [(1, &pod.pod_affinity), (-1, &pod.pod_anti_affinity)] {
            for weighted in side.preferred.iter().filter(|w| w.weight != 0) {
                let term = AffinityTerm::new(&weighted.term, &pod.namespace, symbols);
                preferred.push((sign * i64::from(weighted.weight), term));
            }
        }
        let mut spread = |how| -> Vec<SpreadConstraint> {
            let of_kind = pod.spread.iter().filter(|c| c.when_unsatisfiable == how);
            of_kind.map(|c| SpreadConstraint::new(c, pod, symbols)).collect()
        };
        let hard_spread = spread(WhenUnsatisfiable::DoNotSchedule);
        let soft_spread = spread(WhenUnsatisfiable::ScheduleAnyway);
        let relations = Self { affinity, anti_affinity, preferred, hard_spread, soft_spread };
        (relations != Self::default()).then_some(relations)
    }

    /// Whether pods that come later have to mind it.
    pub fn has_pod_affinity(&self) -> bool {
        !(self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferred.is_empty())
    }

    /// All terms of affinity and anti-affinity.
    pub fn terms(&self) -> impl Iterator<Item = &AffinityTerm> {
        self.affinity.iter().chain(&self.anti_affinity).chain(self.preferred.iter().map(|(_, term)| term))
    }

    /// All spread constraints.
    pub fn spread(&self) -> impl Iterator<Item = &SpreadConstraint> {
        self.hard_spread.iter().chain(&self.soft_spread)
    }

    pub(super) fn selectors(&self) -> impl Iterator<Item = &CompiledLabels> {
        self.terms().map(|t| &t.selector).chain(self.spread().map(|s| &s.selector))
    }

    /// Whether a pod of this kin that comes or goes may change the answer for a class of kin `own`.
    pub fn mind(&self, state: &State, own: &Kin, kin: &Kin) -> bool {
        let spreads = |s: &SpreadConstraint| s.selector.matches(state.symbols(), |key| kin.label(key));
        self.terms().any(|t| t.matches(state, kin)) || (own.namespace == kin.namespace && self.spread().any(spreads))
    }
}
