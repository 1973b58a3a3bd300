//! Handles: what the caller holds in place of a pointer.

use std::collections::BTreeMap;

use crate::describe::NvmlError;

/// What a handle stands for, by names that outlive a change of the description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A card.
    Gpu { card: String },
    /// A MIG device.
    Mig { card: String, uuid: String },
    /// A GPU instance. One that is made again in the same place by the same profile is the same.
    GpuInstance { card: String, id: u32, profile: u32 },
    /// A compute instance.
    ComputeInstance { card: String, instance: u32, id: u32, profile: u32 },
    /// A set of events.
    EventSet(u64),
    /// A sample of the performance monitors.
    Sample(u64),
}

/// All handles that were ever given out. A handle looks like a pointer and is a number: it is never followed, so one that
/// nobody gave out is told from one that somebody did.
pub(crate) struct Handles {
    targets: Vec<Target>,
    numbers: BTreeMap<Target, usize>,
}

/// Callers may treat handles as pointers and expect that they are aligned.
const STEP: usize = 16;

impl Handles {
    pub const fn new() -> Self {
        Self { targets: Vec::new(), numbers: BTreeMap::new() }
    }

    /// The handle of a target, always the same.
    pub fn of(&mut self, target: Target) -> usize {
        let next = self.targets.len() + 1;
        let number = *self.numbers.entry(target.clone()).or_insert(next);
        if number == next {
            self.targets.push(target);
        }
        number * STEP
    }

    /// The target of a handle.
    pub fn target(&self, handle: usize) -> Result<&Target, NvmlError> {
        let index = (handle / STEP).checked_sub(1).filter(|_| handle.is_multiple_of(STEP));
        index.and_then(|index| self.targets.get(index)).ok_or(NvmlError::InvalidArgument)
    }
}
