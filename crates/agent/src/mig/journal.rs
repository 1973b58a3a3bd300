//! Changes that have begun and not ended, on disk: what a crash leaves half-done is found at the next start.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::layout::Layout;
use crate::checkpoint::{CheckpointError, KeptList};
use crate::inventory::GpuUuid;

/// A change that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The card.
    pub card: GpuUuid,
    /// How it was cut before.
    pub former: Layout,
    /// How it is to be cut; `None` as long as the driver does not tell what it can be cut into.
    pub target: Option<Layout>,
}

/// The changes that have begun and not ended.
#[derive(Debug)]
pub struct Journal {
    list: KeptList<Begun>,
    begun: Vec<Begun>,
}

impl Journal {
    /// Opens the journal at `path`, and makes its folder. A broken one is set aside and said: then nobody knows what was
    /// before, and cards stay as they are until the next change.
    ///
    /// # Errors
    /// If it cannot be read at all.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        if let Some(folder) = path.parent() {
            // If it cannot be made, writing says so.
            let _ = std::fs::create_dir_all(folder);
        }
        let loaded = KeptList::open(path)?;
        if let Some(broken) = loaded.broken {
            warn!(%broken, "whether a change of MIG was interrupted is not known; see how the cards are cut");
        }
        Ok(Self { list: loaded.checkpoint, begun: loaded.entries })
    }

    /// What has begun and not ended.
    pub fn begun(&self) -> &[Begun] {
        &self.begun
    }

    /// Notes that a change begins. If one of the same card has begun and not ended, how it was before that one counts.
    ///
    /// # Errors
    /// If it cannot be written: then the change must not begin.
    pub fn begin(&mut self, change: Begun) -> Result<(), CheckpointError> {
        let mut next = self.begun.clone();
        match next.iter_mut().find(|begun| begun.card == change.card) {
            Some(begun) => begun.target = change.target,
            None => next.push(change),
        }
        self.write(next)
    }

    /// Notes that the change of a card has ended, one way or the other.
    ///
    /// # Errors
    /// If it cannot be written. At the next start the card is seen to be as it should.
    pub fn end(&mut self, card: &GpuUuid) -> Result<(), CheckpointError> {
        let next: Vec<Begun> = self.begun.iter().filter(|begun| begun.card != *card).cloned().collect();
        if next.len() == self.begun.len() { Ok(()) } else { self.write(next) }
    }

    fn write(&mut self, next: Vec<Begun>) -> Result<(), CheckpointError> {
        self.list.save(&next)?;
        self.begun = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_begun_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent/mig.json");
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.begun(), []);
        let card = GpuUuid::from("GPU-1");
        let of = |former, target| Begun { card: card.clone(), former, target };
        journal.begin(of(Layout::disabled(), None)).unwrap();
        journal.begin(of(Layout::empty(), Some(Layout::empty()))).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.begun(), [of(Layout::disabled(), Some(Layout::empty()))], "the state before both counts");
        journal.end(&GpuUuid::from("GPU-2")).unwrap();
        journal.end(&card).unwrap();
        assert_eq!(Journal::open(&path).unwrap().begun(), []);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Journal::open(&path).unwrap().begun(), []);
        assert!(folder.path().join("agent/mig.json.broken").exists());
    }
}
