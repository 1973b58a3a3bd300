//! Which NUMA nodes kubelet gives devices of, foretold: its topology manager decides before it asks any device plugin.
//!
//! As kubelet's device manager does it (`pkg/kubelet/cm/devicemanager/topology_hints.go`), a *hint* is a set of NUMA nodes
//! that has as many available devices as are asked for. It is *preferred* if no smaller set would do on an idle machine.
//! The best hint is a preferred one, then the smallest, then the lowest as a number whose bits are the nodes
//! (`pkg/kubelet/cm/topologymanager/policy.go`). What is available is kubelet's view and not the ledger's: a card with
//! shares on it is free in its eyes, and it knows nothing of models and UUIDs.

use std::fmt;

use smallvec::SmallVec;

use crate::ledger::Card;
use crate::model::TopologyManagerPolicy;

/// kubelet counts no NUMA nodes beyond these: a device of such a one is taken for one of none.
const MOST_BITS: u32 = 64;

/// NUMA nodes by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NumaSet(u64);

impl NumaSet {
    /// One node; none for a number that kubelet does not count.
    fn of(node: u32) -> Self {
        Self(1_u64.checked_shl(node).unwrap_or(0))
    }

    /// Whether a node is in it.
    pub fn contains(self, node: u32) -> bool {
        self.0 & Self::of(node).0 != 0
    }

    /// How many there are.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn with(self, node: u32) -> Self {
        Self(self.0 | Self::of(node).0)
    }
}

impl fmt::Display for NumaSet {
    /// `NUMA node 0`, or `NUMA nodes 0, 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = (0..MOST_BITS).filter(|n| self.contains(*n)).map(|n| n.to_string()).collect();
        write!(f, "NUMA node{} {}", if nodes.len() == 1 { "" } else { "s" }, nodes.join(", "))
    }
}

/// The devices of one resource on one NUMA node, as kubelet counts them for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pool {
    /// The NUMA node.
    pub node: u32,
    /// All devices, in whatever state.
    pub all: u32,
    /// Those that are well and not handed out.
    pub available: u32,
    /// Those of the pod's init containers, which go on to the containers after them.
    pub reusable: u32,
}

/// The devices of one resource by NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pools {
    /// By number, each at most once.
    nodes: SmallVec<[Pool; 2]>,
    /// Devices to be had, those of no NUMA node among them.
    obtainable: u32,
}

impl Pools {
    /// Adds devices.
    pub fn add(&mut self, node: Option<u32>, all: u32, available: u32, reusable: u32) {
        self.obtainable += available + reusable;
        let Some(node) = node.filter(|node| *node < MOST_BITS) else { return };
        let at = self.nodes.binary_search_by_key(&node, |pool| pool.node).unwrap_or_else(|at| {
            self.nodes.insert(at, Pool { node, ..Pool::default() });
            at
        });
        let pool = &mut self.nodes[at];
        (pool.all, pool.available, pool.reusable) =
            (pool.all + all, pool.available + available, pool.reusable + reusable);
    }

    /// NUMA nodes with devices.
    pub fn nodes(&self) -> &[Pool] {
        &self.nodes
    }

    /// What kubelet's device manager hints for a container that asks for so many.
    pub fn hints(&self, asked: u32) -> Hints {
        if self.nodes.is_empty() {
            return Hints::Any;
        }
        let mut hints = Sets { found: SmallVec::new(), least: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX) };
        for bits in 1_u32..1 << self.nodes.len() {
            let within = |at: usize| bits >> at & 1 == 1;
            let pools = || self.nodes.iter().enumerate().filter(|(at, _)| within(*at)).map(|(_, pool)| pool);
            let sum = |of: fn(&Pool) -> u32| pools().map(of).sum::<u32>();
            if sum(|p| p.all) >= asked {
                hints.least = hints.least.min(bits.count_ones());
            }
            // A set that leaves out a device which has to be used again is none.
            let complete = (0..).zip(&self.nodes).all(|(at, pool)| pool.reusable == 0 || within(at));
            if complete && self.obtainable >= asked && sum(|p| p.available + p.reusable) >= asked {
                hints.found.push(pools().fold(NumaSet::default(), |set, pool| set.with(pool.node)));
            }
        }
        hints.found.sort_unstable_by_key(|set| (set.len(), *set));
        Hints::Of(hints)
    }
}

/// What one resource would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hints {
    /// Anything: none of its devices has a NUMA node.
    Any,
    /// One of these.
    Of(Sets),
}

/// Sets of NUMA nodes that have what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sets {
    /// Smallest first, then the lowest.
    found: SmallVec<[NumaSet; 4]>,
    /// The size of those that are preferred.
    least: u32,
}

impl Sets {
    fn preferred(&self) -> impl Iterator<Item = NumaSet> + '_ {
        self.found.iter().copied().filter(|set| set.len() == self.least)
    }
}

/// Where kubelet takes a container's devices from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Affinity {
    /// From anywhere: whoever is asked may choose.
    Anywhere,
    /// From these NUMA nodes.
    On(NumaSet),
    /// It refuses the pod (`TopologyAffinityError`).
    Refused,
}

impl Affinity {
    /// What the topology manager makes of the hints for all resources of a container, or of a pod.
    ///
    /// Sets count together only where all resources have the same one. Under `best-effort` several resources without such
    /// a set are not foretold; kubelet refuses none of them.
    pub fn of(policy: TopologyManagerPolicy, hints: &[Hints]) -> Self {
        let mut resources: SmallVec<[&Sets; 2]> = SmallVec::new();
        resources.extend(hints.iter().filter_map(|hints| match hints {
            Hints::Any => None,
            Hints::Of(sets) => Some(sets),
        }));
        let Some((first, others)) = resources.split_first() else { return Self::Anywhere };
        let common = |set: &NumaSet| others.iter().all(|sets| sets.preferred().any(|other| other == *set));
        let single = |set: &NumaSet| policy != TopologyManagerPolicy::SingleNumaNode || set.len() == 1;
        if let Some(set) = first.preferred().find(|set| common(set) && single(set)) {
            return if policy == TopologyManagerPolicy::None { Self::Anywhere } else { Self::On(set) };
        }
        match policy {
            TopologyManagerPolicy::Restricted | TopologyManagerPolicy::SingleNumaNode => Self::Refused,
            TopologyManagerPolicy::BestEffort if others.is_empty() => {
                first.found.first().map_or(Self::Anywhere, |set| Self::On(*set))
            }
            TopologyManagerPolicy::BestEffort | TopologyManagerPolicy::None => Self::Anywhere,
        }
    }

    /// Whether devices of this card may come.
    pub fn allows(self, card: &Card) -> bool {
        match self {
            Self::Anywhere => true,
            Self::On(set) => card.spec().numa.is_some_and(|node| set.contains(node)),
            Self::Refused => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TopologyManagerPolicy::{BestEffort, None as NoPolicy, Restricted, SingleNumaNode};

    fn pools(nodes: &[(u32, u32, u32)]) -> Pools {
        let mut pools = Pools::default();
        for (node, all, available) in nodes {
            pools.add(Some(*node), *all, *available, 0);
        }
        pools
    }

    fn on(nodes: &[u32]) -> Affinity {
        Affinity::On(nodes.iter().fold(NumaSet::default(), |set, node| set.with(*node)))
    }

    #[test]
    fn what_kubelet_makes_of_one_resource() {
        let refused = Affinity::Refused;
        let both_used: &[_] = &[(0, 4, 3), (1, 4, 3)];
        // NUMA nodes with devices in all and available; asked; the answer by policy: single, restricted, best-effort.
        let cases: [(&[_], u32, [Affinity; 3], &str); 9] = [
            (&[(0, 4, 4), (1, 4, 4)], 4, [on(&[0]), on(&[0]), on(&[0])], "the lowest of equals"),
            (&[(0, 4, 3), (1, 4, 4)], 4, [on(&[1]), on(&[1]), on(&[1])], "the one that has them"),
            (both_used, 4, [refused, refused, on(&[0, 1])], "one would do on an idle machine"),
            (&[(0, 4, 4), (1, 4, 4)], 6, [refused, on(&[0, 1]), on(&[0, 1])], "two are the least there can be"),
            (both_used, 7, [refused, refused, Affinity::Anywhere], "not as many are free"),
            (&[(3, 2, 0), (5, 2, 2), (9, 2, 2)], 1, [on(&[5]), on(&[5]), on(&[5])], "numbers with gaps"),
            (&[(0, 2, 1), (1, 2, 2), (2, 2, 2)], 4, [refused, on(&[1, 2]), on(&[1, 2])], "the smallest that has them"),
            (&[(0, 1, 1), (1, 8, 1)], 2, [refused, refused, on(&[0, 1])], "a large one would do"),
            (&[(70, 4, 4)], 1, [Affinity::Anywhere; 3], "beyond what kubelet counts"),
        ];
        for (nodes, asked, expected, why) in cases {
            let hints = [pools(nodes).hints(asked)];
            let found = [SingleNumaNode, Restricted, BestEffort].map(|policy| Affinity::of(policy, &hints));
            assert_eq!(found, expected, "{why}");
            assert_eq!(Affinity::of(NoPolicy, &hints), Affinity::Anywhere, "{why}");
        }
    }

    #[test]
    fn devices_without_numa_nodes_are_nobodys_business_unless_others_have_some() {
        let mut none = Pools::default();
        none.add(None, 4, 4, 0);
        assert_eq!(Affinity::of(SingleNumaNode, &[none.hints(2)]), Affinity::Anywhere);
        let mut some = pools(&[(0, 1, 1)]);
        some.add(None, 4, 4, 0);
        assert_eq!(Affinity::of(SingleNumaNode, &[some.hints(2)]), Affinity::Refused);
        assert_eq!(Affinity::of(BestEffort, &[some.hints(2)]), Affinity::Anywhere);
    }

    #[test]
    fn devices_that_are_used_again_hold_the_container_where_they_are() {
        let mut pools = pools(&[(0, 4, 4), (1, 4, 3)]);
        pools.add(Some(1), 0, 0, 1);
        for (asked, expected) in [(1, on(&[1])), (4, on(&[1])), (5, on(&[0, 1]))] {
            assert_eq!(Affinity::of(Restricted, &[pools.hints(asked)]), expected, "{asked}");
        }
    }

    #[test]
    fn several_resources_need_a_set_that_all_of_them_prefer() {
        let (left, right) = (pools(&[(0, 2, 2), (1, 2, 0)]), pools(&[(0, 2, 0), (1, 2, 2)]));
        let both = pools(&[(0, 2, 2), (1, 2, 2)]);
        for (hints, expected) in [
            ([both.hints(1), right.hints(1)], [on(&[1]), on(&[1]), on(&[1])]),
            ([left.hints(1), right.hints(1)], [Affinity::Refused, Affinity::Refused, Affinity::Anywhere]),
            ([Hints::Any, right.hints(2)], [on(&[1]), on(&[1]), on(&[1])]),
        ] {
            let found = [SingleNumaNode, Restricted, BestEffort].map(|policy| Affinity::of(policy, &hints));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn sets_in_words() {
        assert_eq!(NumaSet::of(3).to_string(), "NUMA node 3");
        assert_eq!(NumaSet::of(0).with(2).to_string(), "NUMA nodes 0, 2");
    }
}
