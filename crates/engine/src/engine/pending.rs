//! Who waits, and what was done for those who did, for metrics.

use std::collections::BTreeMap;

use crate::engine::{Engine, profile_for};
use crate::model::{PodUid, Timestamp};
use crate::queue::{Cause, Depths, Part};

/// How many pods wait, by place of the queue.
pub type Pending = Depths;

/// How often pods were made to go for others.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Preemptions {
    /// Times that a pod that fits nowhere looked for others that could make room, whatever came of it.
    pub attempts: u64,
    /// Times that it had some evicted, by how many.
    pub victims: BTreeMap<u32, u64>,
}

/// What is known of a pod's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempted<'a> {
    /// Times that it was tried.
    pub attempts: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// The scheduler name that it calls us by.
    pub profile: &'a str,
}

impl Engine {
    /// How many pods wait where. `O(pods that wait)`.
    pub fn pending(&self) -> Pending {
        self.queue.depths()
    }

    /// How often pods were made to go for others so far.
    pub fn preemptions(&self) -> &Preemptions {
        &self.preemptions
    }

    /// How many pods came into each part of the queue so far, and why.
    pub fn queue_moves(&self) -> &[((Part, Cause), u64)] {
        self.queue.moves()
    }

    /// The attempts of a pod that waits or is being bound.
    pub fn attempted(&self, uid: &PodUid) -> Option<Attempted<'_>> {
        let entry = self.state.pod_of(uid)?;
        let waiting = self.queue.get(entry.id)?;
        let class = self.state.class(entry.class);
        profile_for(&self.profiles, class)?;
        let profile = self.profiles.get(usize::from(class.spec.profile?)).map(|(name, _)| name.as_str())?;
        Some(Attempted { attempts: waiting.attempts, created_at: entry.created_at, profile })
    }
}
