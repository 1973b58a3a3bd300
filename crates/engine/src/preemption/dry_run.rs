//! One node: who would have to go.

use crate::framework::{PreFiltered, Profile, Rejection};
use crate::model::{NodeId, PodId, Timestamp};
use crate::preemption::budgets::Budgets;
use crate::preemption::fit::{fits_beside_nominated, rejection};
use crate::preemption::orders::{Victim, by_importance, orders};
use crate::state::{Class, Placed, PodEntry, Resolution, State, Transaction};

/// How much it matters that victims go, least first: those that would not go when they were told, broken budgets, the
/// highest priority among them, the sum of their priorities (each counted from the lowest there is, so that fewer are
/// less), how many they are, and how long the most important of them has been running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) struct Harm {
    kept: usize,
    violations: usize,
    top_priority: i64,
    sum: i64,
    victims: usize,
    /// The earliest start among victims of the highest priority, negated in its order: later is less harm.
    started: std::cmp::Reverse<Timestamp>,
}

impl Harm {
    fn of(victims: &[Victim]) -> Self {
        let new: Vec<&Victim> = victims.iter().filter(|v| !v.leaving).collect();
        let top = new.iter().map(|v| v.priority).max();
        let oldest = new.iter().filter(|v| Some(v.priority) == top).map(|v| v.started).min();
        Self {
            kept: new.iter().filter(|v| v.kept).count(),
            violations: new.iter().filter(|v| v.violates).count(),
            top_priority: top.map_or(i64::MIN, i64::from),
            sum: new
                .iter()
                .map(|v| (i64::from(v.priority) + (1 << 31)) * i64::try_from(v.pods.len()).unwrap_or(i64::MAX))
                .sum(),
            victims: new.iter().map(|v| v.pods.len()).sum(),
            started: std::cmp::Reverse(oldest.unwrap_or(Timestamp(u64::MAX))),
        }
    }

    /// Whether no budget would be broken, and nobody was told in vain before.
    pub fn is_unopposed(&self) -> bool {
        self.kept == 0 && self.violations == 0
    }
}

/// A node where it would help.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Sacrifice {
    pub harm: Harm,
    pub node: NodeId,
    /// Who would go, most important first, those that go anyway among them.
    pub victims: Vec<PodId>,
}

/// Why it would not help.
pub(super) enum NoHelp {
    /// Nobody there has a lower priority.
    NoVictims,
    /// Without all of them it would not fit either.
    StillNoFit(Rejection),
}

/// Whether `pod` would fit on `node` once others have left that matter less. `spent` counts how often filters were asked.
pub(crate) fn helps(
    what_if: &mut Transaction<'_>,
    profile: &Profile,
    class: &Class,
    pod: PodId,
    node: NodeId,
    spent: &mut u32,
) -> bool {
    let pre = profile.pre_filter(what_if, class);
    dry_run(what_if, profile, class, &pre, pod, node, spent).is_ok()
}

/// Who would have to go from `node` for `pod` to fit. `spent` counts how often filters were asked.
pub(super) fn dry_run(
    what_if: &mut Transaction<'_>,
    profile: &Profile,
    class: &Class,
    pre: &PreFiltered,
    pod: PodId,
    node: NodeId,
    spent: &mut u32,
) -> Result<Sacrifice, NoHelp> {
    let victims = candidates(what_if, pod, node);
    if victims.is_empty() {
        return Err(NoHelp::NoVictims);
    }
    let orders = orders(what_if, class, node, &victims);
    what_if.transaction(|what_if| {
        let mut removed: Vec<(PodId, Placed)> = Vec::new();
        for pod in victims.iter().flat_map(|v| &v.pods) {
            removed.extend(what_if.remove(*pod).map(|placed| (*pod, placed)));
        }
        *spent = spent.saturating_add(1);
        if let Some(rejection) = obstacle(what_if, profile, class, pre, pod, node) {
            return Resolution::Rollback(Err(NoHelp::StillNoFit(rejection)));
        }
        let mut best: Option<Sacrifice> = None;
        for order in orders {
            let gone = what_if.transaction(|what_if| {
                let gone = put_back(what_if, profile, class, pre, pod, node, &order, &removed, spent);
                Resolution::Rollback(gone)
            });
            let harm = Harm::of(&gone);
            if best.as_ref().is_none_or(|b| harm < b.harm) {
                let mut gone = gone;
                by_importance(&mut gone);
                best = Some(Sacrifice { harm, node, victims: gone.into_iter().flat_map(|v| v.pods).collect() });
            }
        }
        Resolution::Rollback(best.ok_or(NoHelp::NoVictims))
    })
}

/// Pods of lower priority on the node, those of a group that goes as one together.
fn candidates(state: &State, pod: PodId, node: NodeId) -> Vec<Victim> {
    let node = state.node(node).filter(|n| n.facts().is_some());
    let (Some(ours), Some(node)) = (state.pod(pod), node) else { return Vec::new() };
    let mut victims: Vec<Victim> = Vec::new();
    for pod in node.pods().iter().filter_map(|id| state.pod(*id)) {
        let named_already = victims.iter().any(|v| v.pods.contains(&pod.id));
        if let Some(victim) = victim(state, pod).filter(|v| v.priority < ours.priority && !named_already) {
            victims.push(victim);
        }
    }
    by_importance(&mut victims);
    let mut budgets = Budgets::new(state);
    for victim in victims.iter_mut().filter(|v| !v.leaving) {
        for pod in &victim.pods {
            victim.violates |= budgets.violates(*pod);
        }
    }
    victims
}

fn victim(state: &State, pod: &PodEntry) -> Option<Victim> {
    let unit = state.disruption_unit(pod);
    let members = || unit.iter().filter_map(|id| state.pod(*id));
    let leaving = members().all(PodEntry::is_leaving);
    Some(Victim {
        pod: pod.id,
        priority: members().map(|p| p.priority).max()?,
        started: members().map(|p| p.started_at.unwrap_or(Timestamp(u64::MAX))).min()?,
        leaving,
        kept: !leaving && members().any(|p| p.kept),
        violates: false,
        pods: unit,
    })
}

/// Puts victims back in this order, each as long as the pod still fits; returns those that cannot come back.
#[allow(clippy::too_many_arguments, reason = "one step of a dry run, with all that it knows")]
fn put_back(
    what_if: &mut Transaction<'_>,
    profile: &Profile,
    class: &Class,
    pre: &PreFiltered,
    pod: PodId,
    node: NodeId,
    order: &[Victim],
    removed: &[(PodId, Placed)],
    spent: &mut u32,
) -> Vec<Victim> {
    let mut gone = Vec::new();
    for victim in order {
        for (pod, placed) in removed.iter().filter(|(pod, _)| victim.pods.contains(pod)) {
            what_if.put_back(*pod, placed.clone());
        }
        *spent = spent.saturating_add(1);
        if obstacle(what_if, profile, class, pre, pod, node).is_some() {
            for pod in &victim.pods {
                what_if.remove(*pod);
            }
            gone.push(victim.clone());
        }
    }
    gone
}

fn obstacle(
    what_if: &mut Transaction<'_>,
    profile: &Profile,
    class: &Class,
    pre: &PreFiltered,
    pod: PodId,
    node: NodeId,
) -> Option<Rejection> {
    rejection(what_if, profile, class, pre, node).or_else(|| fits_beside_nominated(what_if, profile, class, pod, node))
}
