//! A pod of a group waits until the group is there, and enough of its pods are.

use crate::framework::{PluginName, PreEnqueue, Reason};
use crate::state::{PodEntry, State};

/// `GangScheduling`. The rest of it is the engine's: pods of a gang are placed one after another, all or none.
#[derive(Debug, Clone, Copy)]
pub struct GangScheduling;

impl PreEnqueue for GangScheduling {
    fn name(&self) -> PluginName {
        "GangScheduling"
    }
    fn pre_enqueue(&self, state: &State, pod: &PodEntry) -> Option<Reason> {
        let name = pod.group.as_ref()?;
        let Some(group) = state.pod_group(name) else {
            return Some(Reason::PodGroupMissing { group: name.name.clone() });
        };
        let wanted = group.min_count?;
        let known = state.members(name).filter(|p| !p.terminating).count();
        let known = u32::try_from(known).unwrap_or(u32::MAX);
        (known < wanted).then(|| Reason::PodGroupIncomplete { group: name.name.clone(), known, wanted })
    }
}
