//! Finds cards on one node for what a pod asks.
//!
//! Containers are placed one after another, each on the card that it leaves fullest; where that leads
//! nowhere, the search backs up, within a budget. For the usual pod (one container, one demand) the first
//! try is exact. App containers and sidecars run together and are placed first; an init container then
//! prefers cards that the pod holds anyway, because kubelet hands an init container's devices on to the
//! containers after it.
//!
//! Where the node's topology manager chooses NUMA nodes, a container gets cards of those that it is foretold to choose
//! ([`numa`](crate::ledger::numa)). What comes first then has a say in what is left for the rest, so containers are placed in
//! kubelet's order, and what an init container got goes on as kubelet hands it on.

use smallvec::SmallVec;

use crate::ledger::alignment::Alignment;
use crate::ledger::numa::Affinity;
use crate::ledger::shortage::share_shortage;
use crate::ledger::{Barred, Card, CardGrant, CardPeak, HoldKind, NodeLedger, Shortage, card_peaks};
use crate::model::{ContainerKind, Demand, GpuRequest, Mib, Partitioning, Percent, ShareMemory, TopologyManager};

/// Tries of one device on one card before the search gives up on a node.
const BUDGET: u32 = 512;

/// Which card a share prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardChoice {
    /// The one with the least idle that fits; among equals the lowest index.
    SmallestRemainder,
    /// This one or none.
    Only(u16),
}

/// The devices of one container, in the order of its demands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerPlacement {
    /// The devices.
    pub grants: SmallVec<[CardGrant; 2]>,
}

/// Devices for every container of a request, in the request's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// By container.
    pub containers: SmallVec<[ContainerPlacement; 1]>,
}

impl Placement {
    /// What the pod holds of each card, sorted by card.
    pub fn peaks(&self, request: &GpuRequest) -> SmallVec<[CardPeak; 2]> {
        let view: SmallVec<[_; 2]> =
            request.containers.iter().zip(&self.containers).map(|(c, p)| (c.kind, p.grants.as_slice())).collect();
        card_peaks(&view)
    }
}

/// Places `request` on the cards that `eligible` lets through, and that the `topology` manager of the node's kubelet would
/// give.
pub fn place(
    request: &GpuRequest,
    ledger: &NodeLedger,
    eligible: impl Fn(&Card) -> bool,
    choice: CardChoice,
    topology: Option<TopologyManager>,
) -> Result<Placement, Shortage> {
    let cards = ledger.cards();
    let alignment = Alignment::of(topology, request, cards);
    // For the usual pod, that of its one container is all there is to say.
    let affinity = alignment.as_ref().map_or(Affinity::Anywhere, |it| it.affinity(0, &[]));
    if let Some(placement) = place_simply(request, ledger, |card| eligible(card) && affinity.allows(card), choice) {
        return Ok(placement);
    }
    let mut search = Search {
        request,
        cards,
        eligible: cards.iter().map(eligible).collect(),
        choice,
        placement: Placement { containers: request.containers.iter().map(|_| ContainerPlacement::default()).collect() },
        budget: BUDGET,
        affinities: alignment.iter().flat_map(|_| &request.containers).map(|_| Affinity::Anywhere).collect(),
        alignment,
        dead_end: None,
    };
    // What no arrangement can give needs no search; it also bounds how many devices are looked for.
    if let Some(shortage) = search.lacking() {
        return Err(shortage);
    }
    let items = search.items();
    if search.solve(&items, None) { Ok(search.placement) } else { Err(search.shortage()) }
}

/// The usual pod has one container with one demand, and needs no search: the same cards as [`Search`] finds.
/// `None` says nothing.
fn place_simply(
    request: &GpuRequest,
    ledger: &NodeLedger,
    eligible: impl Fn(&Card) -> bool,
    choice: CardChoice,
) -> Option<Placement> {
    let [container] = request.containers.as_slice() else { return None };
    let [demand] = container.demands.as_slice() else { return None };
    let allowed = |at: u16| choice == CardChoice::SmallestRemainder || choice == CardChoice::Only(at);
    let cards = (0_u16..).zip(ledger.cards()).filter(|(at, card)| allowed(*at) && eligible(card));
    let mut grants: SmallVec<[CardGrant; 2]> = SmallVec::new();
    match demand {
        Demand::Cards { count } => {
            let free = cards.filter(|(_, c)| c.room().whole && c.is_on_demand());
            grants.extend(free.take(*count as usize).map(|(at, card)| whole(at, card)));
            if grants.len() < *count as usize {
                return None;
            }
        }
        Demand::Share { memory, compute, count: 1 } => {
            let fitting = cards.filter_map(|(at, card)| {
                let (room, grant) = (card.room(), share(at, card, *memory, *compute)?);
                let fits = room.shareable && grant.memory <= room.memory && grant.compute <= room.compute;
                fits.then_some(((room.idle, room.memory, at), grant))
            });
            grants.push(fitting.min_by_key(|(rank, _)| *rank)?.1);
        }
        _ => return None,
    }
    Some(Placement { containers: SmallVec::from_iter([ContainerPlacement { grants }]) })
}

/// The cards that a request for one share on one card fits on; `None` for other requests.
pub fn share_candidates(
    request: &GpuRequest,
    ledger: &NodeLedger,
    eligible: impl Fn(&Card) -> bool,
) -> Option<SmallVec<[u16; 8]>> {
    let [container] = request.containers.as_slice() else { return None };
    let [Demand::Share { memory, compute, count: 1 }] = container.demands.as_slice() else { return None };
    let fits = |card: &Card| {
        let room = card.room();
        room.shareable
            && eligible(card)
            && card.memory().is_some_and(|total| memory.on(total) <= room.memory)
            && *compute <= room.compute
    };
    Some((0_u16..).zip(ledger.cards()).filter(|(_, card)| fits(card)).map(|(at, _)| at).collect())
}

/// One device to find: container, demand, and whether it is the first of the demand, and of the container.
#[derive(Debug, Clone, Copy)]
struct Item {
    container: usize,
    demand: usize,
    first: bool,
    opens: bool,
}

/// Orders the options of an item; the devices of one demand are taken in this order.
type Rank = (u32, u32, u64, u16, u16);

struct Search<'a> {
    request: &'a GpuRequest,
    cards: &'a [Card],
    eligible: SmallVec<[bool; 16]>,
    choice: CardChoice,
    placement: Placement,
    budget: u32,
    alignment: Option<Alignment<'a>>,
    /// Where the devices of each container come from, after those before it were placed; empty without an alignment.
    affinities: SmallVec<[Affinity; 2]>,
    /// The first device that none could be found for: its container, and where its devices were to come from.
    dead_end: Option<(usize, Affinity)>,
}

impl Search<'_> {
    fn items(&self) -> Vec<Item> {
        let mut order: Vec<usize> = (0..self.request.containers.len()).collect();
        // Together running containers first, the largest first among them; then init containers. Where NUMA nodes count,
        // kubelet's order counts.
        if self.alignment.is_none() {
            order.sort_by_key(|at| {
                let container = &self.request.containers[*at];
                let init = container.kind == ContainerKind::Init;
                let largest = container.demands.iter().map(weight).max().unwrap_or(0);
                (init, std::cmp::Reverse(if init { 0 } else { largest }))
            });
        }
        let mut items = Vec::new();
        for container in order {
            for (demand, d) in self.request.containers[container].demands.iter().enumerate() {
                let opens = |n| n == 0 && demand == 0;
                items.extend((0..d.count()).map(|n| Item { container, demand, first: n == 0, opens: opens(n) }));
            }
        }
        items
    }

    fn solve(&mut self, items: &[Item], after: Option<Rank>) -> bool {
        let Some((item, rest)) = items.split_first() else { return true };
        let after = if item.first { None } else { after };
        if item.opens
            && let Some(alignment) = self.alignment
        {
            self.affinities[item.container] = alignment.affinity(item.container, &self.placement.containers);
        }
        let mut failed: SmallVec<[u16; 8]> = SmallVec::new();
        let options = self.options(*item);
        for (rank, grant) in options {
            if after.is_some_and(|a| rank <= a) || !self.fits(item.container, &grant) {
                continue;
            }
            // What came to nothing on one card comes to nothing on its like.
            if failed.iter().any(|at| self.is_alike(*at, grant.card)) {
                continue;
            }
            // Whole cards and seats are not mixed for one demand.
            let last = self.placement.containers[item.container].grants.last();
            if !item.first && last.is_some_and(|last| last.kind != grant.kind) {
                continue;
            }
            let Some(budget) = self.budget.checked_sub(1) else { return false };
            self.budget = budget;
            let grant_card = grant.card;
            self.placement.containers[item.container].grants.push(grant);
            if self.solve(rest, Some(rank)) {
                return true;
            }
            self.placement.containers[item.container].grants.pop();
            failed.push(grant_card);
        }
        if failed.is_empty() {
            let affinity = self.affinities.get(item.container).copied().unwrap_or(Affinity::Anywhere);
            self.dead_end.get_or_insert((item.container, affinity));
        }
        false
    }

    /// What to say where the search came to nothing: what the NUMA nodes lack, if it ended for want of those.
    fn shortage(&self) -> Shortage {
        let numa = self
            .alignment
            .zip(self.dead_end)
            .and_then(|(alignment, (container, affinity))| alignment.shortage(container, affinity, &self.eligible));
        numa.unwrap_or(Shortage::Combination)
    }

    /// Whether two cards are the same to this pod: in equal state, and holding nothing of it.
    fn is_alike(&self, a: u16, b: u16) -> bool {
        let held = |at: u16| self.placement.containers.iter().flat_map(|c| &c.grants).any(|g| g.card == at);
        let (x, y) = (&self.cards[usize::from(a)], &self.cards[usize::from(b)]);
        x.room() == y.room()
            && x.spec().memory == y.spec().memory
            && x.spec().partitioning == y.spec().partitioning
            && (self.alignment.is_none() || x.spec().numa == y.spec().numa)
            && x.partitions().is_empty()
            && !held(a)
            && !held(b)
    }

    /// Devices that could serve `item`, best first.
    fn options(&self, item: Item) -> Vec<(Rank, CardGrant)> {
        let container = &self.request.containers[item.container];
        let init = container.kind == ContainerKind::Init;
        let mut options: Vec<(Rank, CardGrant)> = Vec::new();
        for (at, card) in (0_u16..).zip(self.cards) {
            if !self.eligible[usize::from(at)] || card.room().closed.is_some() {
                continue;
            }
            if self.choice != CardChoice::SmallestRemainder && self.choice != CardChoice::Only(at) {
                continue;
            }
            // An init container takes the pod's own cards first, in the order its other containers got them.
            let own = if init && self.alignment.is_none() { self.position_held(at) } else { 0 };
            let mut push = |rank: (u32, u64), grant: CardGrant| {
                let slice = grant.slice.unwrap_or(0);
                options.push(((own, rank.0, rank.1, at, slice), grant));
            };
            match &container.demands[item.demand] {
                Demand::Cards { .. } => match card.spec().partitioning {
                    Partitioning::OnDemand => push((0, 0), whole(at, card)),
                    Partitioning::TimeSliced { .. } => push((card.room().seats, 0), seat(at, card)),
                    Partitioning::Mig(_) => {}
                },
                Demand::Seats { .. } if card.seats() > 0 => push((card.room().seats, 0), seat(at, card)),
                Demand::Seats { .. } => {}
                Demand::Share { memory, compute, .. } => {
                    if let Some(grant) = share(at, card, *memory, *compute) {
                        push((card.room().idle.0, card.room().memory.0), grant);
                    }
                }
                Demand::Slices { profile, .. } => {
                    for slice in card.free_slices(profile).filter(|at| self.wants_slice(card, *at)) {
                        push((card.room().idle.0, 0), slice_grant(at, card, slice));
                    }
                }
            }
        }
        if let Some(alignment) = self.alignment {
            self.hand_on(alignment, item, &mut options);
        }
        options.sort_by_key(|(rank, _)| *rank);
        options
    }

    /// Leaves what kubelet would give: first what the container has to use again, then devices of its NUMA nodes.
    fn hand_on(&self, alignment: Alignment<'_>, item: Item, options: &mut Vec<(Rank, CardGrant)>) {
        let demand = &self.request.containers[item.container].demands[item.demand];
        let (_, mut reusable) = alignment.before(item.container, &self.placement.containers, demand);
        let own = &self.placement.containers[item.container].grants;
        reusable.retain(|unit| !own.iter().any(|grant| (grant.card, grant.slice) == *unit));
        let affinity = match self.affinities[item.container] {
            Affinity::On(_) if !alignment.binds(demand) => Affinity::Anywhere,
            affinity => affinity,
        };
        options.retain_mut(|(rank, grant)| {
            let again = reusable.contains(&(grant.card, grant.slice));
            rank.0 = u32::from(!again);
            let near = affinity.allows(&self.cards[usize::from(grant.card)]);
            affinity != Affinity::Refused && if reusable.is_empty() { near } else { again }
        });
    }

    /// A UUID may name a card, or one slice of it.
    fn wants_slice(&self, card: &Card, slice: u16) -> bool {
        let wanted = &self.request.uuids;
        let uuid = card.partitions().get(usize::from(slice)).map(|p| &p.uuid);
        wanted.is_empty() || wanted.iter().any(|u| Some(u) == uuid || **u == **card.uuid())
    }

    fn position_held(&self, card: u16) -> u32 {
        let grants = self.request.containers.iter().zip(&self.placement.containers);
        let grants = grants.filter(|(c, _)| c.kind != ContainerKind::Init).flat_map(|(_, p)| p.grants.iter());
        (0..).zip(grants).find(|(_, g)| g.card == card).map_or(u32::MAX, |(at, _)| at)
    }

    /// Whether `grant` for `container` goes together with what is placed already.
    fn fits(&self, container: usize, grant: &CardGrant) -> bool {
        let card = &self.cards[usize::from(grant.card)];
        let room = card.room();
        let mut view: SmallVec<[(ContainerKind, SmallVec<[CardGrant; 4]>); 4]> = SmallVec::new();
        for (at, (c, placed)) in self.request.containers.iter().zip(&self.placement.containers).enumerate() {
            let here: SmallVec<[CardGrant; 4]> =
                placed.grants.iter().filter(|g| g.card == grant.card).cloned().collect();
            if at != container && !here.is_empty() && self.run_together(at, container) {
                let whole = grant.kind == HoldKind::Whole || here.iter().any(|g| g.kind == HoldKind::Whole);
                let slice_twice = grant.slice.is_some() && here.iter().any(|g| g.slice == grant.slice);
                if whole || slice_twice {
                    return false;
                }
            }
            // Within a container: distinct cards, or distinct slices.
            if at == container && here.iter().any(|g| g.slice.is_none() || g.slice == grant.slice) {
                return false;
            }
            let mut here = here;
            if at == container {
                here.push(grant.clone());
            }
            view.push((c.kind, here));
        }
        let whole = view.iter().flat_map(|(_, grants)| grants).any(|g| g.kind == HoldKind::Whole);
        // A container that has the card whole in its turn excuses none that shares it in another.
        for (_, grants) in &mut view {
            grants.retain(|g| g.kind != HoldKind::Whole);
        }
        let parts: SmallVec<[_; 4]> = view.iter().map(|(k, g)| (*k, g.as_slice())).collect();
        let parts_fit = card_peaks(&parts).iter().all(|peak| match peak.kind {
            HoldKind::Whole => true,
            HoldKind::Share => room.shareable && peak.memory <= room.memory && peak.compute <= room.compute,
            HoldKind::Seat => peak.seats <= room.seats,
            HoldKind::Slice => true, // only free slices are options
        });
        parts_fit && (!whole || room.whole)
    }

    /// Whether two containers ever run at the same time.
    fn run_together(&self, a: usize, b: usize) -> bool {
        let kind = |at: usize| self.request.containers[at].kind;
        let (first, second) = (a.min(b), a.max(b));
        match (kind(first), kind(second)) {
            // An init container ends before what comes after it starts; sidecars before it run on.
            (ContainerKind::Init, _) => false,
            (ContainerKind::Sidecar, _) => true,
            (ContainerKind::App, other) => other != ContainerKind::Init,
        }
    }

    /// What `demand` alone lacks on `cards`, if anything.
    fn demand_shortage(&self, demand: &Demand, cards: &[&Card]) -> Option<Shortage> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match demand {
            Demand::Cards { count } => {
                let usable = |c: &&&Card| !matches!(c.spec().partitioning, Partitioning::Mig(_));
                let total = number(cards.iter().filter(usable).count());
                let free = number(cards.iter().filter(|c| c.room().whole || c.room().seats > 0).count());
                (free < *count).then(|| {
                    let barred = Barred::of(cards.iter().copied());
                    Shortage::Cards { asked: *count, free, total, barred }
                })
            }
            Demand::Seats { count } => {
                let total = number(cards.iter().filter(|c| c.seats() > 0).count());
                let free = number(cards.iter().filter(|c| c.room().seats > 0).count());
                (free < *count).then_some(Shortage::Seats { asked: *count, free, total })
            }
            Demand::Slices { profile, count } => {
                let of_profile = |c: &Card| {
                    let all = (0_u16..)
                        .zip(c.partitions())
                        .filter(|(at, p)| p.profile == *profile && self.wants_slice(c, *at));
                    all.count()
                };
                let free_on = |c: &Card| c.free_slices(profile).filter(|at| self.wants_slice(c, *at)).count();
                let total = number(cards.iter().map(|c| of_profile(c)).sum());
                let free = number(cards.iter().map(|c| free_on(c)).sum());
                (free < *count).then(|| Shortage::Slices { profile: profile.clone(), asked: *count, free, total })
            }
            Demand::Share { memory, compute, count } => share_shortage(*memory, *compute, *count, cards),
        }
    }

    /// The first demand that cannot be met even alone, or that there is not the memory for all of them together.
    fn lacking(&self) -> Option<Shortage> {
        if self.cards.iter().all(|c| !c.present()) {
            return Some(Shortage::NoGpu);
        }
        let matching: Vec<&Card> =
            self.cards.iter().zip(&self.eligible).filter(|(c, e)| **e && c.present()).map(|(c, _)| c).collect();
        if matching.is_empty() {
            return Some(Shortage::NoMatch);
        }
        let mut demands = self.request.containers.iter().flat_map(|c| &c.demands);
        demands.find_map(|d| self.demand_shortage(d, &matching)).or_else(|| self.lacking_together(&matching))
    }

    fn lacking_together(&self, cards: &[&Card]) -> Option<Shortage> {
        // A part of a card is at least that part of the smallest one.
        let smallest = cards.iter().filter_map(|c| c.spec().memory).min().unwrap_or_default();
        let running = self.request.containers.iter().filter(|c| c.kind != ContainerKind::Init);
        let asked = running.flat_map(|c| &c.demands).fold(0_u128, |sum, d| match d {
            Demand::Share { memory, count, .. } => sum + u128::from(memory.on(smallest).0) * u128::from(*count),
            _ => sum,
        });
        let free: u128 = cards.iter().map(|c| u128::from(c.room().memory.0)).sum();
        (asked > free).then_some(Shortage::Combination)
    }
}

/// How hard a demand is to place, for the order of containers.
fn weight(demand: &Demand) -> u64 {
    match demand {
        Demand::Cards { .. } => u64::MAX,
        Demand::Share { memory: ShareMemory::Mib(memory), .. } => memory.0,
        Demand::Share { memory: ShareMemory::Fraction(part), .. } => u64::from(part.0) << 10,
        Demand::Seats { .. } | Demand::Slices { .. } => 0,
    }
}

fn whole(at: u16, card: &Card) -> CardGrant {
    let memory = card.memory().unwrap_or_default();
    CardGrant { card: at, kind: HoldKind::Whole, memory, compute: Percent::ALL, slice: None }
}

fn seat(at: u16, card: &Card) -> CardGrant {
    let seats = card.seats().max(1);
    let memory = Mib(card.spec().memory.unwrap_or_default().0 / u64::from(seats));
    CardGrant { card: at, kind: HoldKind::Seat, memory, compute: Percent(100 / seats), slice: None }
}

fn share(at: u16, card: &Card, memory: ShareMemory, compute: Percent) -> Option<CardGrant> {
    let total = card.memory()?;
    Some(CardGrant { card: at, kind: HoldKind::Share, memory: memory.on(total), compute, slice: None })
}

fn slice_grant(at: u16, card: &Card, slice: u16) -> CardGrant {
    let size = card.slice_size(slice).0;
    let nominal = card.partitions().get(usize::from(slice)).and_then(|p| crate::model::Partition::nominal(&p.profile));
    let memory = nominal.map_or(Mib(0), |(_, gb)| Mib(gb.saturating_mul(1024)));
    CardGrant { card: at, kind: HoldKind::Slice, memory, compute: Percent(size / 10), slice: Some(slice) }
}
