//! How old agents' reports are, by our own clock. Clocks of nodes need not agree with it, nor it with the time: as with
//! a Lease, a report is young if it was seen to change.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::Timestamp;

/// How a report came to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// By a list, which says what there is and not since when.
    Listed,
    /// By the watch, at the moment when it was written.
    Applied,
}

/// The reports that are known.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// By node: when it says that it was written, which is compared and never computed with; and when it was seen.
    seen: BTreeMap<String, (Timestamp, Timestamp)>,
}

impl Ages {
    /// When this report was written, by our clock. One that does not say when is written now.
    pub fn written(&mut self, now: Timestamp, node: &str, says: Timestamp, sight: Sight) -> Timestamp {
        let written = match (self.seen.get(node), sight) {
            _ if says == Timestamp::default() => now,
            (Some((said, seen)), _) if *said == says => *seen,
            // All that is known of its age is what it says.
            (None, Sight::Listed) => says.min(now),
            (None, Sight::Applied) | (Some(_), _) => now,
        };
        self.seen.insert(node.to_owned(), (says, written));
        written
    }

    /// The report is gone.
    pub fn forget(&mut self, node: &str) {
        self.seen.remove(node);
    }
}
