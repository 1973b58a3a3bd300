//! Pods of lower priority make room.

use crate::framework::{PluginName, PostFilter, Profile, Rescue};
use crate::preemption::Attempt;
use crate::state::Transaction;

/// `DefaultPreemption`.
#[derive(Debug, Clone, Copy)]
pub struct DefaultPreemption;

impl PostFilter for DefaultPreemption {
    fn name(&self) -> PluginName {
        "DefaultPreemption"
    }
    fn post_filter(&self, what_if: &mut Transaction<'_>, profile: &Profile, attempt: Attempt<'_>) -> Rescue {
        attempt.run(what_if, profile)
    }
}
