//! What can let a waiting pod in although the node that takes it did not change.

use std::sync::Arc;

use crate::model::ClaimName;
use crate::state::kin::Kin;
use crate::state::relations::Relations;
use crate::state::volumes::PodVolumes;
use crate::state::{Class, State};

/// Something that happened.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub enum Disturbance {
    /// A pod of this kin came or went, or became another; what it wants of others, if anything.
    Pod(Kin, Option<Arc<Relations>>),
    /// Nodes or namespaces are others, so domains are.
    Domains,
    /// A claim is another, or what is planned for it.
    Claim(ClaimName),
    /// A volume is another, or what is planned for it.
    Volume {
        /// Its name.
        name: Arc<str>,
        /// The claim that it is or was for.
        claim: Option<ClaimName>,
        /// Its storage class, if it may be free now.
        class: Option<Arc<str>>,
    },
    /// There is more room for volumes of a storage class.
    Capacity(Arc<str>),
    /// A pod with these volumes came or went.
    Shared(Arc<PodVolumes>),
    /// Anything else about storage.
    Storage,
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
            storage => class.spec.volumes.as_ref().is_some_and(|volumes| storage.concerns_volumes(state, volumes)),
        }
    }

    fn concerns_volumes(&self, state: &State, volumes: &PodVolumes) -> bool {
        let claims = || volumes.claims.iter().filter_map(|c| state.volumes().claim(&c.name));
        let unbound = |class: &Arc<str>| claims().any(|c| c.volume.is_none() && c.class == *class);
        match self {
            Self::Claim(claim) => volumes.uses(claim),
            Self::Volume { name, claim, class } => {
                claim.as_ref().is_some_and(|claim| volumes.uses(claim))
                    || claims().any(|c| c.volume.as_ref() == Some(name))
                    || class.as_ref().is_some_and(unbound)
            }
            Self::Capacity(class) => unbound(class),
            Self::Shared(others) => volumes.shares(others),
            Self::Storage => true,
            Self::Pod(..) | Self::Domains => false,
        }
    }
}
