//! The cards of one node and everything that is held on them.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ledger::card::Measured;
use crate::ledger::{Card, CardGrant, CardPeak, CardRoom, HoldKind, Holding, card_peaks};
use crate::model::{
    Allocation, CardSpec, ContainerKind, DeviceStatus, GrantKind, Mib, MilliGpu, Models, Partitioning, Percent, PodId,
    PodUid,
};

/// Cards of one node that are kept apart, those that are gone but held among them. What facts name beyond is left
/// out: no machine has as many, and a record must not be able to fill the memory.
const MAX_CARDS: usize = 4096;

/// What kind of GPU pods run on a node, for policies that put like with like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuUse {
    /// A share, a seat or a slice.
    Share,
    /// So many whole cards.
    Whole(u32),
}

/// The ledger of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct NodeLedger {
    cards: Vec<Card>,
    foreign_tolerance: Mib,
}

impl NodeLedger {
    pub(crate) fn new(foreign_tolerance: Mib) -> Self {
        Self { cards: Vec::new(), foreign_tolerance }
    }

    /// The cards, by index; those that are gone but held come last.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// The cards as policies see them.
    pub fn rooms(&self) -> SmallVec<[CardRoom; 8]> {
        self.cards
            .iter()
            .map(|c| CardRoom {
                model: c.model(),
                total: c.spec().memory.unwrap_or_default(),
                idle: c.room().idle,
                free: c.room().memory,
            })
            .collect()
    }

    /// What is granted on the node, in thousandths of a card.
    pub fn held(&self) -> MilliGpu {
        self.cards.iter().map(Card::held).sum()
    }

    /// The kinds of GPU pods here, sorted and distinct. `O(holders)`.
    pub fn uses(&self) -> SmallVec<[GpuUse; 4]> {
        let mut pods: SmallVec<[(PodId, u32); 16]> = SmallVec::new();
        for holding in self.cards.iter().flat_map(Card::holdings) {
            let whole = u32::from(holding.kind == HoldKind::Whole);
            match pods.iter_mut().find(|(pod, _)| *pod == holding.pod) {
                Some((_, cards)) => *cards += whole,
                None => pods.push((holding.pod, whole)),
            }
        }
        let mut uses: SmallVec<[GpuUse; 4]> =
            pods.into_iter().map(|(_, whole)| if whole == 0 { GpuUse::Share } else { GpuUse::Whole(whole) }).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// Whether `pod` holds anything here.
    pub fn holds(&self, pod: PodId) -> bool {
        self.cards.iter().any(|c| c.holdings().iter().any(|h| h.pod == pod))
    }

    /// Whether these are the cards that are here.
    pub(crate) fn describes(&self, specs: &[CardSpec]) -> bool {
        let present = || self.cards.iter().filter(|c| c.present);
        let specs = sorted(specs);
        present().count() == specs.len() && present().zip(specs).all(|(card, spec)| *card.spec == *spec)
    }

    /// Takes a new list of cards. Nobody holds anything until the records are read again. A card keeps what is
    /// measured if it is the same: if its UUID is, or, where one of the two UUIDs is made up, if its index is.
    /// A card that is not on the list comes back as gone when a record names it.
    pub(crate) fn set_inventory(&mut self, node: &str, specs: &[CardSpec], models: &mut Models) {
        let mut old = std::mem::take(&mut self.cards);
        let made_up = |uuid: &str, index: u32| uuid == CardSpec::made_up_uuid(node, index);
        for spec in sorted(specs) {
            let by_uuid = old.iter().position(|c| *c.uuid == *spec.uuid);
            let same = by_uuid.or_else(|| {
                old.iter().position(|c| {
                    c.spec.index == spec.index
                        && (made_up(&c.uuid, spec.index) || made_up(&spec.uuid, spec.index))
                        && !specs.iter().any(|s| *s.uuid == *c.uuid)
                })
            });
            let mut card = Card::new(Arc::new(spec.clone()), models.model(&spec.model), true);
            if let Some(at) = same {
                card.measured = old.remove(at).measured;
            }
            self.cards.push(card);
        }
        self.refresh_all();
    }

    /// Takes measurements, replacing older ones; `resident` says which pods are on the node. An empty
    /// list forgets all measurements: then what was granted counts.
    pub(crate) fn set_measurements(&mut self, devices: &[DeviceStatus], resident: impl Fn(&PodUid) -> bool) {
        for card in &mut self.cards {
            let device = devices.iter().find(|d| *d.card.uuid == *card.uuid);
            card.measured = device.map_or_else(Measured::default, |d| Measured::of(d, &resident));
        }
        self.refresh_all();
    }

    /// Grants what we decided.
    ///
    /// # Panics
    /// If the grant would break an invariant: then the decision was wrong, and stopping is better than
    /// double-booking a card.
    pub(crate) fn grant(&mut self, pod: PodId, uid: &PodUid, peaks: &[CardPeak]) {
        assert!(!self.holds(pod), "pod {uid} is granted GPUs that it already holds");
        for peak in peaks {
            let card = &mut self.cards[usize::from(peak.card)];
            assert!(card.room().closed.is_none(), "GPU {} is closed and granted to {uid}", card.uuid);
            assert!(
                peak.kind != HoldKind::Whole || card.holdings.is_empty(),
                "GPU {} is held and granted whole to {uid}",
                card.uuid
            );
            card.holdings.push(holding(pod, uid, peak));
            card.holdings.sort_by_key(|h| h.pod);
            card.refresh(self.foreign_tolerance);
            assert!(
                card.overcommit().is_none(),
                "GPU {} overcommitted by a grant to {uid}: {:?}",
                card.uuid,
                card.overcommit()
            );
        }
    }

    /// Writes down what is a fact, whatever it breaks; it replaces what the pod held here before.
    pub(crate) fn observe(&mut self, pod: PodId, uid: &PodUid, peaks: &[CardPeak]) {
        for card in &mut self.cards {
            card.holdings.retain(|h| h.pod != pod);
        }
        for peak in peaks {
            let card = &mut self.cards[usize::from(peak.card)];
            card.holdings.push(holding(pod, uid, peak));
            card.holdings.sort_by_key(|h| h.pod);
        }
        self.order_gone();
        self.refresh_all();
    }

    /// Takes back all that `pod` holds here, and what was measured of it: it is gone. Releasing twice is a
    /// no-op.
    pub(crate) fn release(&mut self, pod: PodId, uid: &PodUid) {
        for card in &mut self.cards {
            card.holdings.retain(|h| h.pod != pod);
            card.measured.by_pod.retain(|(u, _)| u != uid);
        }
        self.sweep();
    }

    /// Takes measurements of a pod that the report knew before we did.
    pub(crate) fn measure_pod(&mut self, uid: &PodUid, devices: &[DeviceStatus]) {
        for card in &mut self.cards {
            let device = devices.iter().find(|d| *d.card.uuid == *card.uuid);
            let holders = device.iter().flat_map(|d| &d.holders).filter(|h| h.pod == *uid);
            let used = holders.fold(Mib(0), |sum, h| sum.saturating_add(h.used));
            card.measured.meet(uid, used);
        }
        self.refresh_all();
    }

    /// Cards that are gone come last, by index, however they came to be known.
    fn order_gone(&mut self) {
        let present = self.cards.partition_point(|c| c.present);
        self.cards[present..].sort_by(|a, b| (a.spec.index, &a.uuid).cmp(&(b.spec.index, &b.uuid)));
    }

    /// Drops cards that are gone and held by nobody, and works out what is left of the rest.
    pub(crate) fn sweep(&mut self) {
        self.cards.retain(|c| c.present || !c.holdings.is_empty());
        self.refresh_all();
    }

    /// Reads an allocation record against the cards. A device that the node does not have is added as a
    /// card that is gone, so that the record stays visible.
    pub(crate) fn resolve(
        &mut self,
        node: &str,
        record: &Allocation,
        kind_of: impl Fn(&str) -> Option<ContainerKind>,
        models: &mut Models,
    ) -> SmallVec<[CardPeak; 2]> {
        let mut containers: Vec<(ContainerKind, Vec<CardGrant>)> = Vec::new();
        for container in &record.containers {
            let kind = kind_of(&container.name).unwrap_or(ContainerKind::App);
            let mut grants = Vec::new();
            for device in &container.devices {
                let Some(at) = self.find_or_add(node, &device.uuid, device.index, models) else { continue };
                let card = &self.cards[usize::from(at)];
                let held = container.kind.unwrap_or_else(|| infer(card, device.memory, device.mig.is_some()));
                grants.push(grant(card, at, held, device.memory, device.compute, device.mig.as_deref()));
            }
            containers.push((kind, grants));
        }
        let view: Vec<_> = containers.iter().map(|(k, g)| (*k, g.as_slice())).collect();
        card_peaks(&view)
    }

    fn find_or_add(&mut self, node: &str, uuid: &str, index: u32, models: &mut Models) -> Option<u16> {
        let made_up = uuid == CardSpec::made_up_uuid(node, index);
        let find = |is: &dyn Fn(&Card) -> bool| self.cards.iter().position(is);
        let found = find(&|c| c.present && *c.uuid == *uuid)
            // A record from before the agent reported real UUIDs names the card by its index; and the other way
            // round when the report is not in yet.
            .or_else(|| {
                let by_index = |c: &Card| made_up || *c.uuid == *CardSpec::made_up_uuid(node, index);
                find(&|c| c.present && c.spec.index == index && by_index(c))
            })
            .or_else(|| find(&|c| *c.uuid == *uuid));
        if found.is_none() {
            if self.cards.len() >= MAX_CARDS {
                return None;
            }
            let spec = CardSpec::new(uuid, index, "unknown", None);
            let mut card = Card::new(Arc::new(spec), models.model("unknown"), false);
            card.refresh(self.foreign_tolerance);
            self.cards.push(card);
        }
        u16::try_from(found.unwrap_or(self.cards.len() - 1)).ok()
    }

    fn refresh_all(&mut self) {
        for card in &mut self.cards {
            card.refresh(self.foreign_tolerance);
        }
    }
}

fn holding(pod: PodId, uid: &PodUid, peak: &CardPeak) -> Holding {
    Holding {
        pod,
        uid: uid.clone(),
        kind: peak.kind,
        memory: peak.memory,
        compute: peak.compute,
        seats: peak.seats,
        slices: peak.slices.clone(),
    }
}

/// In the order of cards on a node; a UUID counts once, for it is a card's identity.
fn sorted(specs: &[CardSpec]) -> Vec<&CardSpec> {
    let mut specs: Vec<&CardSpec> = specs.iter().collect();
    specs.sort_by(|a, b| (&a.uuid, a.index).cmp(&(&b.uuid, b.index)));
    specs.dedup_by(|b, a| a.uuid == b.uuid);
    specs.sort_by(|a, b| (a.index, &a.uuid).cmp(&(b.index, &b.uuid)));
    specs.truncate(MAX_CARDS);
    specs
}

/// The kind of a device whose record does not say it.
fn infer(card: &Card, memory: Mib, mig: bool) -> GrantKind {
    match card.spec().partitioning {
        _ if mig => GrantKind::Mig,
        Partitioning::TimeSliced { .. } => GrantKind::Seat,
        _ if card.spec().memory.is_some_and(|total| memory < total) => GrantKind::Share,
        _ => GrantKind::Whole,
    }
}

fn grant(card: &Card, at: u16, kind: GrantKind, memory: Mib, compute: Percent, mig: Option<&str>) -> CardGrant {
    let kind = match kind {
        GrantKind::Whole => HoldKind::Whole,
        GrantKind::Share => HoldKind::Share,
        GrantKind::Mig => HoldKind::Slice,
        GrantKind::Seat => HoldKind::Seat,
    };
    let slice = mig.map(|uuid| {
        let found = card.partitions().iter().position(|p| p.uuid == uuid);
        found.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
    });
    CardGrant { card: at, kind, memory, compute, slice }
}
