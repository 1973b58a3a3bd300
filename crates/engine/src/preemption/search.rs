//! The search over nodes, a bounded number of steps at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::framework::{Profile, Rescue};
use crate::model::{NodeId, PodId};
use crate::preemption::dry_run::{NoHelp, Sacrifice, dry_run};
use crate::state::{Class, State, Transaction};

/// As many nodes are enough to choose from, and a tenth of all where that is more: kube-scheduler's defaults.
const MIN_CANDIDATES: usize = 100;

/// A search that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    pod: PodId,
    /// Nodes to try, in order, and how many of them have been.
    nodes: Vec<NodeId>,
    tried: usize,
    wanted: usize,
    found: Vec<Sacrifice>,
    /// Why it does not help, in how many nodes.
    reasons: BTreeMap<String, usize>,
    /// How often it began anew because the cluster changed under it.
    restarts: u32,
}

/// One attempt to make room.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The pod.
    pub pod: PodId,
    /// Nodes whose filters said that something could be freed, by slot.
    pub resolvable: &'a [NodeId],
    /// Pods that whoever asks has chosen to go already, for others than this pod: nobody has to wait for them.
    pub chosen: &'a [PodId],
    /// Where the search begins, so that not always the same nodes bear it.
    pub offset: u64,
    /// Steps left; a step is one round of filters on one node.
    pub steps: &'a mut u32,
    /// The search, if it is under way already.
    pub search: &'a mut Option<Search>,
}

impl Attempt<'_> {
    /// What can be done for the pod.
    pub(crate) fn run(self, what_if: &mut Transaction<'_>, profile: &Profile) -> Rescue {
        let Some(entry) = what_if.pod(self.pod) else { return Rescue::Nothing };
        let class = what_if.class(entry.class).clone();
        if let Some(why) = ineligible(what_if, self.pod, self.resolvable, self.chosen) {
            *self.search = None;
            return Rescue::Helpless(format!("preemption: {why}"));
        }
        let mut search = match self.search.take() {
            Some(search) if search.pod == self.pod => search,
            _ => Search::new(what_if, self.pod, self.resolvable, self.offset),
        };
        let pre = profile.pre_filter(what_if, &class);
        // One node at least, or a small budget would never come to an end.
        let begun = search.tried;
        while search.goes_on() {
            if *self.steps == 0 && search.tried > begun {
                *self.search = Some(search);
                return Rescue::Unfinished;
            }
            let mut spent = 0;
            let node = search.nodes[search.tried];
            let result = dry_run(what_if, profile, &class, &pre, self.pod, node, &mut spent);
            *self.steps = self.steps.saturating_sub(spent.saturating_mul(class.effort()).max(1));
            search.note(what_if, result);
        }
        search.end(what_if, profile, &class, self.search)
    }
}

/// Why the pod may not have others evicted, in kube-scheduler's words.
fn ineligible(state: &State, pod: PodId, resolvable: &[NodeId], chosen: &[PodId]) -> Option<&'static str> {
    let entry = state.pod(pod)?;
    if !entry.preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = state.nominated_node(pod).filter(|n| resolvable.binary_search(n).is_ok())?;
    let leaves =
        |id: &PodId| !chosen.contains(id) && state.pod(*id).is_some_and(|p| p.preempted && p.priority < entry.priority);
    let waits = state.node(nominated)?.pods().iter().any(leaves);
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

impl Search {
    fn new(state: &State, pod: PodId, resolvable: &[NodeId], offset: u64) -> Self {
        let priority = state.pod(pod).map_or(i32::MIN, |p| p.priority);
        let all = state.live_nodes().count();
        let mut reasons = BTreeMap::new();
        let hopeless = all.saturating_sub(resolvable.len());
        if hopeless > 0 {
            reasons.insert("Preemption is not helpful for scheduling".to_owned(), hopeless);
        }
        let has_lower =
            |id: &NodeId| state.node(*id).is_some_and(|n| n.lowest_priority().is_some_and(|p| p < priority));
        let mut nodes: Vec<NodeId> =
            if state.lowest_priority().is_some_and(|p| p < priority) { resolvable.to_vec() } else { Vec::new() };
        nodes.retain(has_lower);
        let none = resolvable.len() - nodes.len();
        if none > 0 {
            reasons.insert(NO_VICTIMS.to_owned(), none);
        }
        let len = u64::try_from(nodes.len()).unwrap_or(1).max(1);
        nodes.rotate_left(usize::try_from(offset % len).unwrap_or(0));
        let wanted = MIN_CANDIDATES.max(all / 10);
        Self { pod, nodes, tried: 0, wanted, found: Vec::new(), reasons, restarts: 0 }
    }

    fn goes_on(&self) -> bool {
        let enough = self.found.len() >= self.wanted && self.found.iter().any(|s| s.harm.is_unopposed());
        self.tried < self.nodes.len() && !enough
    }

    fn note(&mut self, state: &State, result: Result<Sacrifice, NoHelp>) {
        self.tried += 1;
        match result {
            Ok(sacrifice) => self.found.push(sacrifice),
            Err(NoHelp::NoVictims) => *self.reasons.entry(NO_VICTIMS.to_owned()).or_default() += 1,
            Err(NoHelp::StillNoFit(rejection)) => {
                for reason in &rejection.reasons {
                    *self.reasons.entry(reason.text(state.symbols()).into_owned()).or_default() += 1;
                }
            }
        }
    }

    /// All nodes are tried: the least harm, if it is still what it was when it was found.
    fn end(
        mut self,
        what_if: &mut Transaction<'_>,
        profile: &Profile,
        class: &Class,
        store: &mut Option<Self>,
    ) -> Rescue {
        self.found.sort_by_key(|s| (s.harm, s.node));
        let pre = profile.pre_filter(what_if, class);
        if let Some(best) = self.found.first().cloned() {
            match dry_run(what_if, profile, class, &pre, self.pod, best.node, &mut 0) {
                Ok(again) if again == best => return Rescue::Preempt { node: best.node, victims: best.victims },
                // The cluster changed while we searched. What was found may be worth less than what was left: once more,
                // but not for ever.
                other => {
                    self.found.remove(0);
                    if let Ok(again) = other {
                        if self.restarts >= MAX_RESTARTS {
                            return Rescue::Preempt { node: again.node, victims: again.victims };
                        }
                        self.found.push(again);
                    }
                    self.restarts += 1;
                    *store = Some(self);
                    return Rescue::Unfinished;
                }
            }
        }
        let all: usize = what_if.live_nodes().count();
        let mut counts: Vec<String> = self.reasons.iter().map(|(text, nodes)| format!("{nodes} {text}")).collect();
        counts.sort();
        Rescue::Helpless(format!("preemption: 0/{all} nodes are available: {}.", counts.join(", ")))
    }
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
/// Times that a result is looked at again.
const MAX_RESTARTS: u32 = 3;
