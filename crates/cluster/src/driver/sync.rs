//! Mark and sweep: after a list, what it did not name does not exist.

use std::collections::BTreeSet;

/// How far the watch of one kind is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sync<K> {
    synced: bool,
    /// What the list that is under way has named so far.
    listing: Option<BTreeSet<K>>,
}

impl<K> Default for Sync<K> {
    fn default() -> Self {
        Self { synced: false, listing: None }
    }
}

impl<K: Ord> Sync<K> {
    /// Whether a list was complete once. A later list that is under way changes nothing: what is known is good.
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// A list begins. One that was under way is worth nothing.
    pub fn restart(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// An object exists.
    pub fn saw(&mut self, key: K) {
        if let Some(listing) = &mut self.listing {
            listing.insert(key);
        }
    }

    /// An object is gone.
    pub fn lost(&mut self, key: &K) {
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
    }

    /// The list is complete; without one, nothing exists. Returns those of `known` that do not exist.
    pub fn finish(&mut self, known: impl Iterator<Item = K>) -> Vec<K> {
        self.synced = true;
        #[cfg(feature = "planted-bugs")]
        if crate::planted::is_planted(crate::planted::Bug::NothingIsSwept) {
            return Vec::new();
        }
        let listed = self.listing.take().unwrap_or_default();
        known.filter(|key| !listed.contains(key)).collect()
    }
}
