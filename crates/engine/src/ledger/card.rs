//! One card: its holders, what measurement says, and what is left of it.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ledger::CardPeak;
use crate::model::{
    CardSpec, DeviceStatus, Health, Mib, MilliGpu, ModelId, Partition, Partitioning, Percent, PodId, PodUid, mul_div,
    share_size,
};

/// How a pod holds a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum HoldKind {
    /// All of it.
    Whole,
    /// Memory and compute.
    Share,
    /// Seats of a time-sliced card.
    Seat,
    /// MIG slices.
    Slice,
}

/// What one pod holds of one card: the peak over the time that its containers run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Holding {
    /// The pod's slot.
    pub pod: PodId,
    /// The pod's identity.
    pub uid: PodUid,
    /// How it holds the card.
    pub kind: HoldKind,
    /// Memory granted.
    pub memory: Mib,
    /// Compute granted.
    pub compute: Percent,
    /// Seats granted.
    pub seats: u32,
    /// Positions of the slices granted, sorted.
    pub slices: SmallVec<[u16; 2]>,
}

/// Why facts say that a card holds more than it can.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Overcommit {
    /// The card is not there any more, its holders are.
    Gone,
    /// Held whole, and by somebody else too.
    Mixed {
        /// Number of holders.
        holders: usize,
    },
    /// Held in a way that its mode does not have.
    WrongMode(HoldKind),
    /// More memory than it has.
    Memory {
        /// Granted.
        held: Mib,
        /// There is.
        total: Mib,
    },
    /// More compute than it has.
    Compute {
        /// Granted.
        held: Percent,
    },
    /// More seats than it has.
    Seats {
        /// Granted.
        held: u32,
        /// There are.
        total: u32,
    },
    /// One slice in two hands.
    SliceTwice {
        /// UUID of the slice.
        uuid: String,
    },
}

impl fmt::Display for Overcommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the card is gone but pods hold it"),
            Self::Mixed { holders } => write!(f, "{holders} pods hold it, one of them whole"),
            Self::WrongMode(kind) => write!(f, "held as {kind:?}, which its mode does not offer"),
            Self::Memory { held, total } => write!(f, "{held} granted of {total}"),
            Self::Compute { held } => write!(f, "{held} compute granted"),
            Self::Seats { held, total } => write!(f, "{held} seats granted of {total}"),
            Self::SliceTwice { uuid } => write!(f, "slice {uuid} granted twice"),
        }
    }
}

/// Why a card takes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Closed {
    /// It is not there any more.
    Gone,
    /// It is unhealthy.
    Unhealthy,
    /// It holds more than it can.
    Overcommitted(Overcommit),
}

/// What a card can still give.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Room {
    /// Why nothing, if so; then all the rest is zero.
    pub closed: Option<Closed>,
    /// Whether it can be given whole.
    pub whole: bool,
    /// Whether it can take shares at all.
    pub shareable: bool,
    /// Memory for shares.
    pub memory: Mib,
    /// Compute for shares.
    pub compute: Percent,
    /// Seats.
    pub seats: u32,
    /// Idle part: what a policy sees.
    pub idle: MilliGpu,
}

impl Room {
    /// That of a card which is neither held nor used nor partitioned.
    fn idle(total: Mib) -> Self {
        Self {
            closed: None,
            whole: true,
            shareable: true,
            memory: total,
            compute: Percent::ALL,
            seats: 0,
            idle: MilliGpu::CARD,
        }
    }
}

/// Measured use, from a report that is still fresh.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Measured {
    /// By processes that no pod explains.
    pub foreign: Mib,
    /// By pods that are on the node, sorted.
    pub by_pod: Vec<(PodUid, Mib)>,
    /// By pods that are not known to be on the node: not seen yet, or deleted while processes live on. Sorted.
    pub strangers: Vec<(PodUid, Mib)>,
}

impl Measured {
    /// From an agent's word. Foreign is what it says, or what its other numbers leave unexplained, if that is more.
    pub fn of(device: &DeviceStatus, resident: impl Fn(&PodUid) -> bool) -> Self {
        let mut used: Vec<(PodUid, Mib)> = Vec::new();
        for holder in &device.holders {
            match used.iter_mut().find(|(uid, _)| *uid == holder.pod) {
                Some((_, sum)) => *sum = sum.saturating_add(holder.used),
                None => used.push((holder.pod.clone(), holder.used)),
            }
        }
        used.sort();
        let explained = used.iter().fold(Mib(0), |sum, (_, used)| sum.saturating_add(*used));
        let foreign = device.foreign.max(device.used.saturating_sub(explained));
        let (by_pod, strangers) = used.into_iter().partition(|(uid, _)| resident(uid));
        Self { foreign, by_pod, strangers }
    }

    /// A pod that uses so much of the card is on the node, a stranger until now.
    pub fn meet(&mut self, uid: &PodUid, used: Mib) {
        self.strangers.retain(|(stranger, _)| stranger != uid);
        self.by_pod.retain(|(known, _)| known != uid);
        if used > Mib(0) {
            self.by_pod.push((uid.clone(), used));
            self.by_pod.sort();
        }
    }
}

/// A card of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Card {
    pub(super) spec: Arc<CardSpec>,
    /// Copies of what every evaluation reads, so that it need not follow the pointer.
    memory: Option<Mib>,
    on_demand: bool,
    pub(super) uuid: Arc<str>,
    pub(super) model: ModelId,
    pub(super) present: bool,
    pub(super) measured: Measured,
    pub(super) holdings: SmallVec<[Holding; 2]>,
    room: Room,
}

impl Card {
    pub(super) fn new(spec: Arc<CardSpec>, model: ModelId, present: bool) -> Self {
        let uuid = spec.uuid.as_str().into();
        Self {
            memory: spec.memory,
            on_demand: spec.partitioning == Partitioning::OnDemand,
            spec,
            uuid,
            model,
            present,
            measured: Measured::default(),
            holdings: SmallVec::new(),
            room: Room::default(),
        }
    }

    /// What the card is.
    pub fn spec(&self) -> &CardSpec {
        &self.spec
    }
    /// Its memory, if it is known.
    pub fn memory(&self) -> Option<Mib> {
        self.memory
    }
    /// Whether it is whole or shared on demand: neither time-sliced nor partitioned.
    pub fn is_on_demand(&self) -> bool {
        self.on_demand
    }
    /// Its UUID.
    pub fn uuid(&self) -> &Arc<str> {
        &self.uuid
    }
    /// Its model.
    pub fn model(&self) -> ModelId {
        self.model
    }
    /// Whether it is there; a card that is gone stays listed while pods hold it.
    pub fn present(&self) -> bool {
        self.present
    }
    /// Who holds it, by pod slot.
    pub fn holdings(&self) -> &[Holding] {
        &self.holdings
    }
    /// What it can still give.
    pub fn room(&self) -> &Room {
        &self.room
    }
    /// Whether all of it can be given, whole or shared: its model and memory say all about it.
    pub fn is_idle(&self) -> bool {
        self.memory.is_some_and(|total| self.room == Room::idle(total))
    }
    /// Memory used by processes that no pod explains.
    pub fn foreign(&self) -> Mib {
        self.measured.foreign
    }
    /// Memory used by processes that no grant on it explains.
    pub fn unexplained(&self) -> Mib {
        self.measured.foreign.saturating_add(self.ungranted())
    }
    /// Its MIG slices, if it is partitioned.
    pub fn partitions(&self) -> &[Partition] {
        match &self.spec.partitioning {
            Partitioning::Mig(partitions) => partitions,
            _ => &[],
        }
    }
    /// Seats that it has in all.
    pub fn seats(&self) -> u32 {
        match self.spec.partitioning {
            Partitioning::TimeSliced { seats } => seats.max(1),
            _ => 0,
        }
    }
    /// Free slices of `profile`, by position.
    pub fn free_slices<'a>(&'a self, profile: &'a str) -> impl Iterator<Item = u16> + 'a {
        let usable = self.room.closed.is_none();
        (0_u16..)
            .zip(self.partitions())
            .filter(move |(at, p)| usable && p.profile == profile && !self.slice_held(*at))
            .map(|(at, _)| at)
    }
    fn slice_held(&self, at: u16) -> bool {
        self.holdings.iter().any(|h| h.slices.contains(&at))
    }

    /// The size of a holding in thousandths of the card.
    pub fn size_of(&self, holding: &Holding) -> MilliGpu {
        match holding.kind {
            HoldKind::Whole => MilliGpu::CARD,
            HoldKind::Share => match self.spec.memory {
                Some(total) => share_size(holding.memory, holding.compute, total),
                None => MilliGpu::CARD,
            },
            HoldKind::Seat => seat_part(holding.seats, self.seats()),
            HoldKind::Slice => {
                let sum: MilliGpu = holding.slices.iter().map(|at| self.slice_size(*at)).sum();
                MilliGpu(sum.0.min(1000))
            }
        }
    }

    /// The size of a slice: the larger of its part of the memory and of the compute. A profile's name
    /// states both; a card has 7 compute slices, an A30 has 4 (NVIDIA MIG user guide).
    pub fn slice_size(&self, at: u16) -> MilliGpu {
        let Some(partition) = self.partitions().get(usize::from(at)) else { return MilliGpu(0) };
        let Some((compute, memory_gb)) = Partition::nominal(&partition.profile) else { return MilliGpu(0) };
        let slices = if self.spec.model.contains("A30") { 4 } else { 7 };
        let by_compute = mul_div(u64::from(compute), 1000, slices).min(1000) as u32;
        let by_memory =
            self.spec.memory.map_or(0, |total| mul_div(memory_gb.saturating_mul(1024), 1000, total.0).min(1000) as u32);
        MilliGpu(by_compute.max(by_memory))
    }

    /// Granted in thousandths of the card, at most a card.
    pub fn held(&self) -> MilliGpu {
        let sum: MilliGpu = self.holdings.iter().map(|h| self.size_of(h)).sum();
        MilliGpu(sum.0.min(1000))
    }

    /// How much of the card one of its holders has.
    pub fn part_of(&self, holding: &Holding) -> MilliGpu {
        self.size_of(holding)
    }

    /// Idle part after `peak` would be granted: what [`Card::room`] would say then.
    pub(super) fn idle_after(&self, peak: &CardPeak) -> MilliGpu {
        match peak.kind {
            HoldKind::Whole => MilliGpu(0),
            HoldKind::Share => {
                let Some(total) = self.memory else { return MilliGpu(0) };
                let held: MilliGpu = self.holdings.iter().map(|h| self.size_of(h)).sum();
                let size = share_size(peak.memory, peak.compute, total);
                let left = self.room.memory.saturating_sub(peak.memory);
                MilliGpu::CARD.saturating_sub(held + size).min(per_mille(left, total))
            }
            HoldKind::Seat => seat_part(self.room.seats.saturating_sub(peak.seats), self.seats()),
            HoldKind::Slice => self.free_slice_part(&peak.slices),
        }
    }

    /// The free slices but for these, at most a card.
    fn free_slice_part(&self, but: &[u16]) -> MilliGpu {
        let free = (0_u16..).zip(self.partitions()).filter(|(at, _)| !self.slice_held(*at) && !but.contains(at));
        let sum: MilliGpu = free.map(|(at, _)| self.slice_size(at)).sum();
        MilliGpu(sum.0.min(1000))
    }

    /// What breaks an invariant, if anything does. `O(holders)`.
    pub fn overcommit(&self) -> Option<Overcommit> {
        if self.holdings.is_empty() {
            return None;
        }
        if !self.present {
            return Some(Overcommit::Gone);
        }
        for holding in &self.holdings {
            let offered = match self.spec.partitioning {
                Partitioning::OnDemand => matches!(holding.kind, HoldKind::Whole | HoldKind::Share),
                Partitioning::TimeSliced { .. } => holding.kind == HoldKind::Seat,
                Partitioning::Mig(_) => holding.kind == HoldKind::Slice,
            };
            if !offered {
                return Some(Overcommit::WrongMode(holding.kind));
            }
        }
        let holders = self.holdings.len();
        if holders > 1 && self.holdings.iter().any(|h| h.kind == HoldKind::Whole) {
            return Some(Overcommit::Mixed { holders });
        }
        let held = self
            .holdings
            .iter()
            .filter(|h| h.kind == HoldKind::Share)
            .fold(Mib(0), |sum, h| sum.saturating_add(h.memory));
        if let Some(total) = self.spec.memory.filter(|total| held > *total) {
            return Some(Overcommit::Memory { held, total });
        }
        let held = self.holdings.iter().fold(Percent(0), |sum, h| sum.saturating_add(h.compute));
        if held > Percent::ALL && self.holdings.iter().all(|h| h.kind == HoldKind::Share) {
            return Some(Overcommit::Compute { held });
        }
        let held = self.holdings.iter().fold(0_u32, |sum, h| sum.saturating_add(h.seats));
        if held > self.seats() {
            return Some(Overcommit::Seats { held, total: self.seats() });
        }
        self.slice_trouble()
    }

    fn slice_trouble(&self) -> Option<Overcommit> {
        let mut seen: Vec<u16> = Vec::new();
        for at in self.holdings.iter().flat_map(|h| &h.slices) {
            match self.partitions().get(usize::from(*at)) {
                Some(partition) if seen.contains(at) => {
                    return Some(Overcommit::SliceTwice { uuid: partition.uuid.clone() });
                }
                Some(_) => seen.push(*at),
                None => return Some(Overcommit::WrongMode(HoldKind::Slice)),
            }
        }
        None
    }

    /// Works out what is left. Called after every change to the card. `O(holders)`.
    pub(super) fn refresh(&mut self, foreign_tolerance: Mib) {
        let closed = if let Some(trouble) = self.overcommit() {
            Some(Closed::Overcommitted(trouble))
        } else if !self.present {
            Some(Closed::Gone)
        } else if self.spec.health != Health::Healthy {
            Some(Closed::Unhealthy)
        } else {
            None
        };
        self.room = match closed {
            Some(_) => Room { closed, ..Room::default() },
            None => match self.spec.partitioning {
                Partitioning::OnDemand => self.on_demand_room(foreign_tolerance),
                Partitioning::TimeSliced { .. } => self.seat_room(),
                Partitioning::Mig(_) => self.slice_room(),
            },
        };
    }

    /// Memory that processes use or pods were granted, whichever is more, holder by holder.
    fn memory_in_use(&self) -> Mib {
        let measured = |uid: &PodUid| {
            self.measured.by_pod.binary_search_by(|(u, _)| u.cmp(uid)).map_or(Mib(0), |at| self.measured.by_pod[at].1)
        };
        let granted = self.holdings.iter().fold(Mib(0), |sum, h| sum.saturating_add(h.memory.max(measured(&h.uid))));
        granted.saturating_add(self.measured.foreign).saturating_add(self.ungranted())
    }

    /// Memory of pods that use the card without a grant on it, or without being on the node.
    fn ungranted(&self) -> Mib {
        let holds = |uid: &PodUid| self.holdings.iter().any(|h| h.uid == *uid);
        let by_pod = self.measured.by_pod.iter().filter(|(uid, _)| !holds(uid));
        by_pod.chain(&self.measured.strangers).fold(Mib(0), |sum, (_, used)| sum.saturating_add(*used))
    }

    fn on_demand_room(&self, foreign_tolerance: Mib) -> Room {
        let idle_card = self.holdings.is_empty();
        let whole = idle_card && self.unexplained() <= foreign_tolerance;
        let Some(total) = self.spec.memory else {
            return Room { whole, idle: MilliGpu(if whole { 1000 } else { 0 }), ..Room::default() };
        };
        if self.holdings.iter().any(|h| h.kind == HoldKind::Whole) {
            return Room::default();
        }
        let memory = total.saturating_sub(self.memory_in_use());
        let held: MilliGpu = self.holdings.iter().map(|h| self.size_of(h)).sum();
        let compute = self.holdings.iter().fold(Percent(0), |sum, h| sum.saturating_add(h.compute));
        // Foreign use within the tolerance leaves a card whole, so it leaves it wholly idle too.
        let by_memory = if whole { MilliGpu::CARD } else { per_mille(memory, total) };
        Room {
            closed: None,
            whole,
            shareable: true,
            memory,
            compute: Percent::ALL.saturating_sub(compute),
            seats: 0,
            idle: MilliGpu::CARD.saturating_sub(held).min(by_memory),
        }
    }

    fn seat_room(&self) -> Room {
        let held = self.holdings.iter().fold(0_u32, |sum, h| sum.saturating_add(h.seats));
        let seats = self.seats().saturating_sub(held);
        Room { seats, idle: seat_part(seats, self.seats()), ..Room::default() }
    }

    fn slice_room(&self) -> Room {
        Room { idle: self.free_slice_part(&[]), ..Room::default() }
    }
}

/// So many of all seats, in thousandths of a card.
fn seat_part(seats: u32, all: u32) -> MilliGpu {
    MilliGpu((u64::from(seats) * 1000 / u64::from(all.max(1))).min(1000) as u32)
}

/// `part` of `total` in thousandths, rounded down.
fn per_mille(part: Mib, total: Mib) -> MilliGpu {
    MilliGpu(mul_div(part.0, 1000, total.0).min(1000) as u32)
}
