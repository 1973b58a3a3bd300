//! kubelet's device and topology managers, which try everything.

use std::collections::BTreeSet;

use gpu_scheduler_engine::model::{
    ContainerKind, DeviceReport, Node, TopologyManager, TopologyManagerPolicy, TopologyManagerScope as Scope,
};

use super::gpu_node;

use ContainerKind::{App, Init, Sidecar};
use TopologyManagerPolicy::{BestEffort, None as NoPolicy, Restricted, SingleNumaNode};

/// One with some cards, as its device and topology managers see them.
#[derive(Debug, Clone)]
pub struct Kubelet {
    pub topology: TopologyManager,
    /// NUMA node, and whether it is well, by card.
    pub cards: Vec<(Option<u32>, bool)>,
    pub handed_out: BTreeSet<usize>,
}

/// A hint: NUMA nodes, and whether it is preferred. Without nodes it leaves the choice open.
type Hint = (Option<BTreeSet<u32>>, bool);

impl Kubelet {
    fn available(&self) -> BTreeSet<usize> {
        (0..self.cards.len()).filter(|at| self.cards[*at].1 && !self.handed_out.contains(at)).collect()
    }

    fn within(&self, cards: impl IntoIterator<Item = usize>, nodes: &BTreeSet<u32>) -> usize {
        cards.into_iter().filter(|at| self.cards[*at].0.is_some_and(|n| nodes.contains(&n))).count()
    }

    /// What the device manager hints.
    fn hints(&self, asked: usize, reusable: &BTreeSet<usize>) -> Vec<Hint> {
        let nodes: Vec<u32> = self.cards.iter().filter_map(|c| c.0).collect::<BTreeSet<_>>().into_iter().collect();
        if nodes.is_empty() {
            return vec![(None, true)];
        }
        let sets: Vec<BTreeSet<u32>> = (1_usize..1 << nodes.len())
            .map(|bits| (0..nodes.len()).filter(|i| bits >> i & 1 == 1).map(|i| nodes[i]).collect())
            .collect();
        let large = |set: &&BTreeSet<u32>| self.within(0..self.cards.len(), set) >= asked;
        let least = sets.iter().filter(large).map(BTreeSet::len).min().unwrap_or(nodes.len());
        let obtainable = self.available().union(reusable).count() >= asked;
        let does = |set: &&BTreeSet<u32>| {
            let all_again = reusable.iter().all(|at| self.cards[*at].0.is_none_or(|n| set.contains(&n)));
            let again = self.within(reusable.iter().copied(), set);
            obtainable && all_again && again + self.within(self.available(), set) >= asked
        };
        let hints: Vec<Hint> = sets.iter().filter(does).map(|set| (Some(set.clone()), set.len() == least)).collect();
        // No way to have them is a hint as well: anywhere, and not preferred.
        if hints.is_empty() { vec![(None, false)] } else { hints }
    }

    /// The topology manager's choice among the hints of one resource; `None`: it refuses.
    fn choose(&self, hints: Vec<Hint>) -> Option<Hint> {
        let number = |set: &BTreeSet<u32>| set.iter().map(|n| 1_u64 << n).sum::<u64>();
        let mut hints = hints;
        if self.topology.policy == SingleNumaNode {
            hints.retain(|(nodes, preferred)| *preferred && nodes.as_ref().is_none_or(|set| set.len() == 1));
        }
        let best = hints
            .into_iter()
            .min_by_key(|(nodes, preferred)| (!preferred, nodes.as_ref().map(|set| (set.len(), number(set)))));
        match self.topology.policy {
            NoPolicy => Some((None, true)),
            BestEffort => best,
            Restricted | SingleNumaNode => best.filter(|(_, preferred)| *preferred),
        }
    }

    /// Whether it would give each container exactly these cards, if the plugin may choose where kubelet leaves a choice.
    pub fn gives(&mut self, containers: &[(ContainerKind, Vec<usize>)]) -> bool {
        let mut reusable: BTreeSet<usize> = BTreeSet::new();
        let of_pod = (self.topology.scope == Scope::Pod).then(|| self.hints(most_at_once(containers), &reusable));
        for (kind, cards) in containers {
            let hints = of_pod.clone().unwrap_or_else(|| self.hints(cards.len(), &reusable));
            let Some((nodes, _)) = self.choose(hints) else { return false };
            let again: Vec<usize> = cards.iter().copied().filter(|at| reusable.contains(at)).collect();
            if again.len() < reusable.len().min(cards.len()) {
                return false; // what is to be used again comes first
            }
            let fresh = || cards.iter().copied().filter(|at| !reusable.contains(at));
            let near = nodes.as_ref().is_none_or(|set| self.within(fresh(), set) == fresh().count());
            if !near || !fresh().all(|at| self.available().contains(&at)) {
                return false;
            }
            self.handed_out.extend(fresh());
            match kind {
                Init => reusable.extend(cards),
                App | Sidecar => reusable.retain(|at| !cards.contains(at)),
            }
        }
        true
    }
}

/// Devices that a pod is limited to, as Kubernetes counts them.
fn most_at_once(containers: &[(ContainerKind, Vec<usize>)]) -> usize {
    let lasting = containers.iter().filter(|(kind, _)| *kind != Init).map(|(_, cards)| cards.len()).sum();
    let inits = (0..containers.len()).filter(|at| containers[*at].0 == Init).map(|at| {
        let sidecars = containers[..at].iter().filter(|(kind, _)| *kind == Sidecar).map(|(_, cards)| cards.len());
        containers[at].1.len() + sidecars.sum::<usize>()
    });
    inits.max().unwrap_or(0).max(lasting)
}

/// A node whose cards are on these NUMA nodes, and what its agent reports.
pub fn node_with(numa: &[Option<u32>], topology: Option<TopologyManager>) -> (Node, DeviceReport) {
    let mut node = gpu_node("n1", u32::try_from(numa.len()).expect("a few"));
    for (card, numa) in node.cards.iter_mut().zip(numa) {
        card.numa = *numa;
    }
    let report = DeviceReport { topology_manager: topology, ..super::report(&node, 1_000_000, 0) };
    (node, report)
}
