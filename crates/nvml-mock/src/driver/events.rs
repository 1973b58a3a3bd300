//! Sets of events that callers wait on.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper_sys::bindings as nvml;

use super::{Driver, Target};
use crate::describe::{NvmlError, Xid};
use crate::machine::Card;

/// The sets that callers have made, by number.
pub(crate) struct EventSets {
    sets: BTreeMap<u64, EventSet>,
    next: u64,
}

/// The cards that a caller wants to hear of.
#[derive(Default)]
struct EventSet {
    /// By UUID.
    cards: BTreeMap<String, Registration>,
}

/// What a caller wants to hear of one card.
#[derive(Default)]
struct Registration {
    types: u64,
    /// What was there before, or was told already.
    told: BTreeSet<u64>,
}

/// An event that somebody is to be told of.
pub(crate) struct Event {
    /// The card's UUID.
    pub card: String,
    /// What happened on it.
    pub xid: Xid,
}

/// The events that a described card can have.
pub(crate) const SUPPORTED: u64 = (nvml::nvmlEventTypeXidCriticalError
    | nvml::nvmlEventTypeSingleBitEccError
    | nvml::nvmlEventTypeDoubleBitEccError) as u64;

impl EventSets {
    pub const fn new() -> Self {
        Self { sets: BTreeMap::new(), next: 0 }
    }

    /// Makes an empty set.
    pub fn create(&mut self) -> u64 {
        self.next += 1;
        self.sets.insert(self.next, EventSet::default());
        self.next
    }

    /// Forgets a set.
    pub fn free(&mut self, set: u64) -> Result<(), NvmlError> {
        self.sets.remove(&set).map(drop).ok_or(NvmlError::InvalidArgument)
    }

    /// Tells the set of what happens on the card from now on.
    pub fn register(&mut self, set: u64, card: &str, types: u64, there: &[Xid]) -> Result<(), NvmlError> {
        let set = self.sets.get_mut(&set).ok_or(NvmlError::InvalidArgument)?;
        let known = set.cards.contains_key(card);
        let registration = set.cards.entry(card.to_owned()).or_default();
        registration.types |= types;
        if !known {
            registration.told = there.iter().map(|xid| xid.id).collect();
        }
        Ok(())
    }

    fn next<'a>(&mut self, set: u64, cards: impl Iterator<Item = &'a Card>) -> Result<Option<Event>, NvmlError> {
        let set = self.sets.get_mut(&set).ok_or(NvmlError::InvalidArgument)?;
        for card in cards {
            let Some(registration) = set.cards.get_mut(&card.uuid) else { continue };
            if registration.types & u64::from(nvml::nvmlEventTypeXidCriticalError) == 0 {
                continue;
            }
            if let Some(xid) = card.gpu.xids.iter().find(|xid| !registration.told.contains(&xid.id)) {
                registration.told.insert(xid.id);
                return Ok(Some(Event { card: card.uuid.clone(), xid: *xid }));
            }
        }
        Ok(None)
    }
}

impl Driver {
    /// The next event of the set that nobody was told of. Also a lost card is told of: that is how it is found.
    pub fn next_event(&mut self, handle: usize) -> Result<Option<Event>, NvmlError> {
        let set = self.event_set(handle)?;
        let node = self.node.as_ref().ok_or(NvmlError::Uninitialized)?;
        self.sets.next(set, node.machine.cards.iter())
    }

    /// The number of a set.
    pub fn event_set(&self, handle: usize) -> Result<u64, NvmlError> {
        match self.handles.target(handle)? {
            Target::EventSet(set) => Ok(*set),
            _ => Err(NvmlError::InvalidArgument),
        }
    }
}
