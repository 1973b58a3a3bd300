//! What a pod holds of a card at most while its containers come and go.

use smallvec::SmallVec;

use crate::ledger::HoldKind;
use crate::model::{ContainerKind, Mib, Percent};

/// One device of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CardGrant {
    /// The card's position on its node.
    pub card: u16,
    /// How it is held.
    pub kind: HoldKind,
    /// Memory.
    pub memory: Mib,
    /// Compute.
    pub compute: Percent,
    /// The slice's position on its card.
    pub slice: Option<u16>,
}

/// What a pod holds of one card.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CardPeak {
    /// The card's position on its node.
    pub card: u16,
    /// How it is held; whole, if any container holds it whole.
    pub kind: HoldKind,
    /// Memory at most.
    pub memory: Mib,
    /// Compute at most.
    pub compute: Percent,
    /// Seats at most.
    pub seats: u32,
    /// Slices ever held, sorted.
    pub slices: SmallVec<[u16; 2]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    memory: Mib,
    compute: Percent,
    seats: u32,
}

impl Amount {
    fn of(grants: &[CardGrant], card: u16) -> Self {
        let mut amount = Self::default();
        for grant in grants.iter().filter(|g| g.card == card) {
            amount.memory = amount.memory.saturating_add(grant.memory);
            amount.compute = amount.compute.saturating_add(grant.compute);
            amount.seats += u32::from(grant.kind == HoldKind::Seat);
        }
        amount
    }
    fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            compute: self.compute.saturating_add(other.compute),
            seats: self.seats + other.seats,
        }
    }
    fn max(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            compute: self.compute.max(other.compute),
            seats: self.seats.max(other.seats),
        }
    }
}

/// Per card, the most that is held at any time: app containers and sidecars together, or an init
/// container beside the sidecars that started before it. Containers come in the pod's order. Sorted by card.
pub fn card_peaks(containers: &[(ContainerKind, &[CardGrant])]) -> SmallVec<[CardPeak; 2]> {
    let mut cards: SmallVec<[u16; 8]> =
        containers.iter().flat_map(|(_, grants)| grants.iter().map(|g| g.card)).collect();
    cards.sort_unstable();
    cards.dedup();
    cards.into_iter().map(|card| card_peak(containers, card)).collect()
}

fn card_peak(containers: &[(ContainerKind, &[CardGrant])], card: u16) -> CardPeak {
    let (mut running, mut sidecars, mut peak) = (Amount::default(), Amount::default(), Amount::default());
    for (kind, grants) in containers {
        let own = Amount::of(grants, card);
        match kind {
            ContainerKind::App => running = running.plus(own),
            ContainerKind::Sidecar => {
                running = running.plus(own);
                sidecars = sidecars.plus(own);
            }
            ContainerKind::Init => peak = peak.max(sidecars.plus(own)),
        }
    }
    let peak = peak.max(running);
    let grants = || containers.iter().flat_map(|(_, grants)| grants.iter()).filter(|g| g.card == card);
    let mut slices: SmallVec<[u16; 2]> = grants().filter_map(|g| g.slice).collect();
    slices.sort_unstable();
    slices.dedup();
    // HoldKind orders Whole first: one whole container makes the card whole.
    let kind = grants().map(|g| g.kind).min().unwrap_or(HoldKind::Share);
    CardPeak { card, kind, memory: peak.memory, compute: peak.compute, seats: peak.seats, slices }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContainerKind::{App, Init, Sidecar};

    fn share(card: u16, memory: u64) -> Vec<CardGrant> {
        vec![CardGrant { card, kind: HoldKind::Share, memory: Mib(memory), compute: Percent(0), slice: None }]
    }

    #[test]
    fn phases() {
        for (containers, expected) in [
            (vec![(Init, 10), (Init, 10), (Init, 10)], 10),
            (vec![(App, 10), (App, 1)], 11),
            (vec![(Init, 10), (App, 4)], 10),
            (vec![(Sidecar, 3), (Init, 10), (App, 4)], 13),
            (vec![(Init, 10), (Sidecar, 3), (App, 4)], 10),
            (vec![(Sidecar, 3), (App, 4)], 7),
        ] {
            let grants: Vec<_> = containers.iter().map(|(k, m)| (*k, share(0, *m))).collect();
            let grants: Vec<_> = grants.iter().map(|(k, g)| (*k, g.as_slice())).collect();
            let peaks = card_peaks(&grants);
            assert_eq!(peaks.len(), 1);
            assert_eq!(peaks[0].memory, Mib(expected), "{containers:?}");
        }
    }
}
