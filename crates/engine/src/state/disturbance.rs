//! What can let a waiting pod in although the node that takes it did not change.

use std::sync::Arc;

use crate::state::kin::Kin;
use crate::state::relations::Relations;
use crate::state::{Class, State};

/// Something that happened.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub enum Disturbance {
    /// A pod of this kin came or went, or became another; what it wants of others, if anything.
    Pod(Kin, Option<Arc<Relations>>),
    /// Nodes or namespaces are others, so domains are.
    Domains,
}

impl Disturbance {
    /// Whether pods of `class` may get another answer by it.
    pub(crate) fn concerns(&self, state: &State, class: &Class) -> bool {
        let own = state.kins().get(class.spec.kin);
        match self {
            Self::Pod(kin, wants) => {
                wants.as_ref().is_some_and(|w| w.anti_affinity.iter().any(|t| t.matches(state, own)))
                    || class.spec.relations.as_ref().is_some_and(|r| r.mind(state, own, kin))
            }
            Self::Domains => {
                class.spec.relations.is_some()
                    || state.affine_classes().any(|c| {
                        let terms = c.spec.relations.iter().flat_map(|r| &r.anti_affinity);
                        terms.into_iter().any(|t| t.matches(state, own))
                    })
            }
        }
    }
}
