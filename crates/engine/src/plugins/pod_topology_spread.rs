//! Pods of a kind spread evenly over domains (`topologySpreadConstraints`).

use std::borrow::Cow;

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict};
use crate::model::{CompiledLabels, Effect, NodeId, Symbol};
use crate::plugins::domains::Domains;
use crate::plugins::go_float;
use crate::state::{Class, Kin, NodeFacts, NodeState, SpreadConstraint, State};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// `PodTopologySpread`. A pod that says nothing of spreading and asks for no GPU is spread by the system: over hosts
/// (skew 3) and zones (skew 5) if possible, with all pods that its services and its controller select.
#[derive(Debug, Clone, Copy)]
pub struct PodTopologySpread;

impl CyclePlugin for PodTopologySpread {
    fn name(&self) -> PluginName {
        "PodTopologySpread"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        if !state.kins().matter() {
            return None;
        }
        let own = class.spec.relations.as_ref().filter(|r| r.spread().next().is_some());
        let (hard, soft, by_system) = match own {
            Some(own) => (Cow::Borrowed(&own.hard_spread[..]), Cow::Borrowed(&own.soft_spread[..]), false),
            None => (Cow::Borrowed(&[][..]), Cow::Owned(system_constraints(state, class)?), true),
        };
        let hard = hard.iter().map(|c| Counted::new(state, class, c)).collect();
        let hard = Hard::new(state, class, hard);
        Some(Box::new(Spread { state, class, hard, soft, by_system }))
    }
}

/// What the system asks for where the pod leaves it open.
fn system_constraints(state: &State, class: &Class) -> Option<Vec<SpreadConstraint>> {
    if !class.spec.gpu.is_none() {
        return None;
    }
    let selector = state.default_selector(state.kins().get(class.spec.kin), class.spec.controller)?;
    let constraint = |key: &str, max_skew| {
        Some(SpreadConstraint {
            max_skew,
            // A key that no node has makes no domain.
            topology: state.symbols().get(key)?,
            selector: selector.clone(),
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        })
    };
    Some([constraint(HOSTNAME, 3), constraint(ZONE, 5)].into_iter().flatten().collect())
}

struct Spread<'a> {
    state: &'a State,
    class: &'a Class,
    hard: Hard,
    soft: Cow<'a, [SpreadConstraint]>,
    by_system: bool,
}

impl CycleState for Spread<'_> {
    fn filter(&self, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        self.hard.filter(node.id())
    }
    fn score(&self, feasible: &[(NodeId, &NodeState)]) -> Option<Vec<i64>> {
        if self.soft.is_empty() {
            return None;
        }
        Some(score(self, feasible))
    }
}

/// A constraint with what it looks at.
struct Counted {
    max_skew: i64,
    min_domains: usize,
    domains: Domains,
    /// By kin: whether its pods count.
    counts: Vec<bool>,
    /// By node slot: whether the node takes part.
    included: Vec<bool>,
    /// 1 if the pod itself counts.
    own: i64,
}

impl Counted {
    fn new(state: &State, class: &Class, constraint: &SpreadConstraint) -> Self {
        let mut included = vec![false; state.node_slots()];
        for node in state.live_nodes() {
            included[node.id().index()] = node.facts().is_some_and(|f| takes_part(state, class, constraint, node, f));
        }
        let counts = counting(state, class, &constraint.selector);
        Self {
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains,
            domains: Domains::new(state, constraint.topology),
            own: i64::from(matches(state, &constraint.selector, state.kins().get(class.spec.kin))),
            counts,
            included,
        }
    }

    fn on(&self, node: &NodeState) -> i64 {
        pods_on(&self.counts, node)
    }
}

/// By kin: whether its pods count for a pod of `class`: those that `selector` matches in its namespace. A selector that
/// restricts nothing counts nobody, as kube-scheduler has it.
fn counting(state: &State, class: &Class, selector: &CompiledLabels) -> Vec<bool> {
    let namespace = state.kins().get(class.spec.kin).namespace;
    let counts = |kin: &Kin| !selector.is_everything() && kin.namespace == namespace && matches(state, selector, kin);
    state.kins().matching(counts)
}

fn matches(state: &State, selector: &CompiledLabels, kin: &Kin) -> bool {
    selector.matches(state.symbols(), |key| kin.label(key))
}

/// Pods on a node that count: those that are being deleted do not.
fn pods_on(counts: &[bool], node: &NodeState) -> i64 {
    let counted = node.kin().iter().filter(|k| counts[k.kin.index()]);
    counted.map(|k| i64::from(k.pods - k.terminating)).sum()
}

fn takes_part(state: &State, class: &Class, c: &SpreadConstraint, node: &NodeState, facts: &NodeFacts) -> bool {
    let affine = || class.spec.selector.matches(state.symbols(), node.symbol(), |key| facts.label(key));
    let tolerated = || {
        let hard = facts.taints().iter().filter(|t| t.effect != Effect::PreferNoSchedule);
        let tolerates = |taint| class.spec.tolerations.iter().any(|t| t.tolerates(taint));
        let mut untolerated = hard.filter(|t| !tolerates(t));
        // A cordon is a taint too, by the controller's hand.
        untolerated.next().is_none()
    };
    (!c.honors_affinity || affine()) && (!c.honors_taints || tolerated())
}

/// Constraints that must hold, with how many pods each domain has.
struct Hard {
    constraints: Vec<(Counted, Vec<i64>, i64)>,
}

impl Hard {
    fn new(state: &State, _class: &Class, constraints: Vec<Counted>) -> Self {
        // Only nodes that have all keys take part in any.
        let complete = |node: &NodeState| constraints.iter().all(|c| c.domains.of(node.id()).is_some());
        let complete: Vec<_> = state.live_nodes().filter(|node| complete(node)).collect();
        let count = |c: Counted| {
            let mut pods: Vec<Option<i64>> = vec![None; c.domains.len()];
            for node in complete.iter().filter(|n| c.included[n.id().index()]) {
                if let Some(domain) = c.domains.of(node.id()) {
                    *pods[domain].get_or_insert(0) += c.on(node);
                }
            }
            let found = pods.iter().flatten();
            let min = if found.clone().count() < c.min_domains { 0 } else { found.min().copied().unwrap_or(0) };
            (c, pods.iter().map(|n| n.unwrap_or(0)).collect(), min)
        };
        let counted = constraints.into_iter().map(count).collect();
        Self { constraints: counted }
    }

    fn filter(&self, node: NodeId) -> Verdict {
        for (constraint, pods, min) in &self.constraints {
            let Some(domain) = constraint.domains.of(node) else {
                return Verdict::unresolvable(Reason::TopologyLabelMissing);
            };
            if pods[domain] + constraint.own - min > constraint.max_skew {
                return Verdict::unschedulable(Reason::TopologySpread);
            }
        }
        Verdict::Pass
    }
}

/// What a soft constraint adds to a node's badness.
struct Soft {
    max_skew: i64,
    counts: Vec<bool>,
    domains: Domains,
    /// Pods by domain; empty for the host name, whose domains are nodes.
    pods: Vec<i64>,
    per_node: bool,
    /// `ln(domains + 2)`, times 2^40.
    weight: i64,
}

/// Scores by the soft constraints: pods in a domain, weighed by the logarithm of the number of domains.
fn score(spread: &Spread<'_>, feasible: &[(NodeId, &NodeState)]) -> Vec<i64> {
    let (state, class) = (spread.state, spread.class);
    let domains: Vec<Domains> = spread.soft.iter().map(|c| Domains::new(state, c.topology)).collect();
    let complete = |node: NodeId| spread.by_system || domains.iter().all(|d| d.of(node).is_some());
    let ignored: Vec<bool> = feasible.iter().map(|(id, _)| !complete(*id)).collect();
    let taking_part: Vec<NodeId> =
        feasible.iter().zip(&ignored).filter(|(_, ignored)| !**ignored).map(|((id, _), _)| *id).collect();
    let hostname = state.symbols().get(HOSTNAME);
    // Where the system asks, a node without the label counts as a domain of its own kind.
    let all: Vec<&NodeState> = state.live_nodes().filter(|n| complete(n.id())).collect();
    let soft: Vec<Soft> = spread
        .soft
        .iter()
        .zip(domains)
        .map(|(c, domains)| Soft::new(state, class, c, domains, hostname, &taking_part, &all))
        .collect();
    let raw: Vec<i64> = feasible
        .iter()
        .zip(&ignored)
        .map(|((id, node), ignored)| if *ignored { 0 } else { badness(&soft, *id, node) })
        .collect();
    normalized(&raw, &ignored)
}

impl Soft {
    fn new(
        state: &State,
        class: &Class,
        constraint: &SpreadConstraint,
        domains: Domains,
        hostname: Option<Symbol>,
        feasible: &[NodeId],
        all: &[&NodeState],
    ) -> Self {
        let counts = counting(state, class, &constraint.selector);
        let per_node = Some(constraint.topology) == hostname;
        let mut wanted = vec![false; domains.len()];
        let mut unlabelled = false;
        for id in feasible {
            match domains.of(*id) {
                Some(domain) => wanted[domain] = true,
                None => unlabelled = true,
            }
        }
        let size =
            if per_node { feasible.len() } else { wanted.iter().filter(|w| **w).count() + usize::from(unlabelled) };
        let mut pods = vec![0; if per_node { 0 } else { domains.len() }];
        for node in all.iter().filter(|_| !per_node) {
            let Some(domain) = domains.of(node.id()).filter(|d| wanted[*d]) else { continue };
            if node.facts().is_some_and(|f| takes_part(state, class, constraint, node, f)) {
                pods[domain] += pods_on(&counts, node);
            }
        }
        let weight = go_float::ln(u64::try_from(size).unwrap_or(u64::MAX).saturating_add(2));
        Self { max_skew: constraint.max_skew, counts, domains, pods, per_node, weight }
    }
}

fn badness(soft: &[Soft], id: NodeId, node: &NodeState) -> i64 {
    let mut sum: i128 = 0;
    for constraint in soft {
        let Some(domain) = constraint.domains.of(id) else { continue };
        let pods = if constraint.per_node { pods_on(&constraint.counts, node) } else { constraint.pods[domain] };
        sum += i128::from(pods) * i128::from(constraint.weight) + (i128::from(constraint.max_skew - 1) << 40);
    }
    i64::try_from((sum + (1 << 39)) >> 40).unwrap_or(i64::MAX)
}

/// Less is better; nodes that were left out get nothing.
fn normalized(raw: &[i64], ignored: &[bool]) -> Vec<i64> {
    let counted = || raw.iter().zip(ignored).filter(|(_, ignored)| !**ignored).map(|(raw, _)| *raw);
    let (min, max) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
    let points = |(raw, ignored): (&i64, &bool)| match (ignored, max) {
        (true, _) => 0,
        (false, 0) => 100,
        (false, _) => 100 * (max + min - raw) / max,
    };
    raw.iter().zip(ignored).map(points).collect()
}
