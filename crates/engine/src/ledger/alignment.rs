//! What kubelet's topology manager is foretold to do with one pod on one node, container by container.
//!
//! kubelet goes through init containers and sidecars first, in the pod's order, then the app's. What an init container got
//! goes on to the containers after it before anything else does. Shares take no part: their seats have no NUMA node, so
//! that kubelet leaves the card to the record.

use smallvec::SmallVec;

use crate::ledger::numa::{Affinity, Hints, NumaSet, Pools};
use crate::ledger::shortage::NumaRoom;
use crate::ledger::{Card, CardGrant, ContainerPlacement, HoldKind, Shortage};
use crate::model::{ContainerKind, Demand, GpuRequest, Health, Partitioning, TopologyManager, TopologyManagerScope};

/// kubelet runs with a policy on machines of up to so many NUMA nodes; beyond, nothing is foretold.
const MOST_NODES: usize = 8;

/// A device that a container got: its card, and which slice of it.
type Unit = (u16, Option<u16>);

/// The topology manager on one pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alignment<'a> {
    topology: TopologyManager,
    request: &'a GpuRequest,
    cards: &'a [Card],
}

impl<'a> Alignment<'a> {
    /// `None` where it has no say, without a policy and where none of the devices asked for has a NUMA node; and where it is
    /// not foretold.
    pub fn of(topology: Option<TopologyManager>, request: &'a GpuRequest, cards: &'a [Card]) -> Option<Self> {
        let alignment = Self { topology: topology.filter(|it| it.aligns())?, request, cards };
        let demands = request.containers.iter().flat_map(|c| &c.demands);
        let most = demands.map(|demand| alignment.pools(demand, &[], &[]).nodes().len()).max()?;
        (1..=MOST_NODES).contains(&most).then_some(alignment)
    }

    /// Where a container's devices come from after those before it were `placed`. `O(demands * (cards + 2^NUMA nodes))`.
    pub fn affinity(&self, container: usize, placed: &[ContainerPlacement]) -> Affinity {
        let hints: SmallVec<[Hints; 1]> = match self.topology.scope {
            TopologyManagerScope::Container => {
                let demands = self.request.containers[container].demands.iter();
                let hints = demands.map(|demand| {
                    let (taken, reusable) = self.before(container, placed, demand);
                    self.pools(demand, &taken, &reusable).hints(self.asked(demand))
                });
                hints.collect()
            }
            // The pod's sum, once, whatever its containers have by now.
            TopologyManagerScope::Pod => {
                let mut demands: SmallVec<[&Demand; 2]> = SmallVec::new();
                for demand in self.request.containers.iter().flat_map(|c| &c.demands) {
                    if !demands.iter().any(|known| same_resource(known, demand)) {
                        demands.push(demand);
                    }
                }
                demands.iter().map(|demand| self.pools(demand, &[], &[]).hints(self.asked(demand))).collect()
            }
        };
        match Affinity::of(self.topology.policy, &hints) {
            // kubelet counts seats, and two of one container are on two cards: it would choose where no two are.
            Affinity::On(set) if !self.request.containers[container].demands.iter().all(|d| self.can_give(set, d)) => {
                Affinity::Anywhere
            }
            affinity => affinity,
        }
    }

    /// Whether NUMA nodes have what a demand asks for, whoever has it now.
    fn can_give(&self, set: NumaSet, demand: &Demand) -> bool {
        let within =
            self.cards.iter().filter(|card| card.present() && card.spec().numa.is_some_and(|n| set.contains(n)));
        let most = within.map(|card| match card.spec().partitioning {
            Partitioning::TimeSliced { .. } => units(card, demand).0.min(1),
            Partitioning::OnDemand | Partitioning::Mig(_) => units(card, demand).0,
        });
        !self.binds(demand) || most.sum::<u32>() >= demand.count()
    }

    /// Devices of a demand's resource that containers before this one took from what is available, and those of them that it
    /// has to use again.
    pub fn before(
        &self,
        container: usize,
        placed: &[ContainerPlacement],
        demand: &Demand,
    ) -> (SmallVec<[Unit; 4]>, SmallVec<[Unit; 4]>) {
        let (mut taken, mut reusable) = (SmallVec::<[Unit; 4]>::new(), SmallVec::<[Unit; 4]>::new());
        for (earlier, placed) in self.request.containers.iter().zip(placed).take(container) {
            for grant in placed.grants.iter().filter(|grant| self.serves(grant, demand)) {
                let unit = (grant.card, grant.slice);
                let again = reusable.iter().position(|known| *known == unit);
                match (again, earlier.kind) {
                    (Some(_), ContainerKind::Init) => {}
                    (Some(at), ContainerKind::App | ContainerKind::Sidecar) => drop(reusable.remove(at)),
                    (None, ContainerKind::Init) => {
                        taken.push(unit);
                        reusable.push(unit);
                    }
                    (None, ContainerKind::App | ContainerKind::Sidecar) => taken.push(unit),
                }
            }
        }
        (taken, reusable)
    }

    /// How many devices of a demand's resource are asked for at once, by the scope.
    fn asked(&self, demand: &Demand) -> u32 {
        match self.topology.scope {
            TopologyManagerScope::Container => demand.count(),
            TopologyManagerScope::Pod => self.request.peak(|d| same_resource(d, demand).then_some(d.count())),
        }
    }

    /// Whether the NUMA nodes of a container say which devices it gets of this resource.
    pub fn binds(&self, demand: &Demand) -> bool {
        !self.pools(demand, &[], &[]).nodes().is_empty()
    }

    /// Why a container does not get what it asks for of `affinity`; `None` where the NUMA nodes are not why.
    pub fn shortage(&self, container: usize, affinity: Affinity, eligible: &[bool]) -> Option<Shortage> {
        let chosen = match affinity {
            Affinity::Anywhere => return None,
            Affinity::On(set) => Some(set),
            Affinity::Refused => None,
        };
        let demands = self.request.containers[container].demands.iter();
        let (demand, pools) =
            demands.map(|d| (d, self.pools(d, &[], &[]))).find(|(_, pools)| !pools.nodes().is_empty())?;
        let free = |node: u32| {
            let here = self.cards.iter().zip(eligible).filter(|(c, e)| **e && c.spec().numa == Some(node));
            here.map(|(card, _)| free_units(card, demand)).sum()
        };
        let nodes: SmallVec<[NumaRoom; 2]> = pools
            .nodes()
            .iter()
            .map(|p| NumaRoom { node: p.node, total: p.all, available: p.available, free: free(p.node) })
            .collect();
        let asked = self.asked(demand);
        let room = |set: NumaSet| nodes.iter().filter(|n| set.contains(n.node)).map(|n| n.free).sum::<u32>();
        let short = chosen.is_none_or(|set| room(set) < asked);
        short.then_some(Shortage::Numa { policy: self.topology.policy, asked, chosen, nodes })
    }

    /// A demand's devices as kubelet counts them.
    fn pools(&self, demand: &Demand, taken: &[Unit], reusable: &[Unit]) -> Pools {
        let mut pools = Pools::default();
        for (at, card) in (0_u16..).zip(self.cards).filter(|(_, card)| card.present()) {
            let (all, available) = units(card, demand);
            if all > 0 {
                let of = |units: &[Unit]| u32::try_from(units.iter().filter(|u| u.0 == at).count()).unwrap_or(u32::MAX);
                pools.add(card.spec().numa, all, available.saturating_sub(of(taken)), of(reusable));
            }
        }
        pools
    }

    /// Whether a grant is a device of the demand's resource.
    fn serves(&self, grant: &CardGrant, demand: &Demand) -> bool {
        match (demand, grant.kind) {
            (Demand::Cards { .. }, HoldKind::Whole | HoldKind::Seat)
            | (Demand::Seats { .. }, HoldKind::Seat)
            | (Demand::Share { .. }, HoldKind::Share) => true,
            (Demand::Slices { profile, .. }, HoldKind::Slice) => {
                let card = &self.cards[usize::from(grant.card)];
                grant.slice.and_then(|at| card.partitions().get(usize::from(at))).is_some_and(|p| p.profile == *profile)
            }
            _ => false,
        }
    }
}

/// All devices of a demand's resource on a card, and those that kubelet would hand out: neither sick nor with anybody. It
/// does not know of shares.
fn units(card: &Card, demand: &Demand) -> (u32, u32) {
    let (all, held) = match (demand, &card.spec().partitioning) {
        (Demand::Cards { .. }, Partitioning::OnDemand) => {
            (1, u32::from(card.holdings().iter().any(|h| h.kind == HoldKind::Whole)))
        }
        (Demand::Cards { .. } | Demand::Seats { .. }, Partitioning::TimeSliced { .. }) => {
            (card.seats(), card.holdings().iter().fold(0_u32, |sum, h| sum.saturating_add(h.seats)))
        }
        (Demand::Slices { profile, .. }, Partitioning::Mig(partitions)) => {
            let held = |at: u16| card.holdings().iter().any(|h| h.slices.contains(&at));
            let ours = || (0_u16..).zip(partitions).filter(|(_, p)| p.profile == *profile);
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            (number(ours().count()), number(ours().filter(|(at, _)| held(*at)).count()))
        }
        _ => (0, 0),
    };
    (all, if card.spec().health == Health::Healthy { all.saturating_sub(held) } else { 0 })
}

/// Devices of a demand's resource on a card that the ledger can give a container: seats are on distinct cards.
fn free_units(card: &Card, demand: &Demand) -> u32 {
    match demand {
        Demand::Cards { .. } if card.is_on_demand() => u32::from(card.room().whole),
        Demand::Cards { .. } | Demand::Seats { .. } => u32::from(card.room().seats > 0),
        Demand::Slices { profile, .. } => u32::try_from(card.free_slices(profile).count()).unwrap_or(u32::MAX),
        Demand::Share { .. } => 0,
    }
}

fn same_resource(a: &Demand, b: &Demand) -> bool {
    match (a, b) {
        (Demand::Cards { .. }, Demand::Cards { .. })
        | (Demand::Seats { .. }, Demand::Seats { .. })
        | (Demand::Share { .. }, Demand::Share { .. }) => true,
        (Demand::Slices { profile: a, .. }, Demand::Slices { profile: b, .. }) => a == b,
        _ => false,
    }
}
