//! A table of dense slots: removed ones are used again, the lowest first, so that equal histories give
//! equal slots.

use std::collections::BTreeSet;

/// Values in numbered slots.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<Box<T>>>,
    free: BTreeSet<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: BTreeSet::new() }
    }
}

impl<T> Slots<T> {
    /// Slots that exist, taken or free.
    pub fn len(&self) -> usize {
        self.slots.len()
    }
    /// Stores what `make` makes for its slot, and returns the slot.
    pub fn insert_with(&mut self, make: impl FnOnce(usize) -> T) -> usize {
        let at = self.free.pop_first().unwrap_or(self.slots.len());
        let value = Some(Box::new(make(at)));
        match self.slots.get_mut(at) {
            Some(slot) => *slot = value,
            None => self.slots.push(value),
        }
        at
    }
    /// Empties a slot.
    pub fn remove(&mut self, at: usize) -> Option<Box<T>> {
        let value = self.slots.get_mut(at)?.take()?;
        self.free.insert(at);
        Some(value)
    }
    /// What is in a slot.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at)?.as_deref()
    }
    /// What is in a slot that the caller knows to be taken.
    pub fn at(&self, at: usize) -> &T {
        self.get(at).expect("ids are handed out for taken slots and dropped before these are freed")
    }
    /// As [`Slots::at`], to change it.
    pub fn at_mut(&mut self, at: usize) -> &mut T {
        self.slots
            .get_mut(at)
            .and_then(Option::as_deref_mut)
            .expect("ids are handed out for taken slots and dropped before these are freed")
    }
    /// Puts a value back as it was.
    pub fn restore(&mut self, at: usize, value: Box<T>) {
        self.slots[at] = Some(value);
    }
    /// Taken slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(Option::as_deref)
    }
}
