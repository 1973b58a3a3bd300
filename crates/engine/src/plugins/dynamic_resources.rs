//! Pods with resource claims wait: this scheduler does not allocate them yet, and must not bind such a pod without.

use crate::framework::{PluginName, PreFilter, Reason, Selection};
use crate::state::{Class, State};

/// `DynamicResources`.
#[derive(Debug, Clone, Copy)]
pub struct DynamicResources;

impl PreFilter for DynamicResources {
    fn name(&self) -> PluginName {
        "DynamicResources"
    }
    fn pre_filter(&self, _state: &State, class: &Class) -> Selection {
        if class.spec.claims { Selection::Reject(Reason::ResourceClaims) } else { Selection::All }
    }
}
