//! What placements of ours will do to volumes, until the objects say it themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{ClaimName, PodId, VolumeClaim, VolumePlan};
use crate::state::pod::Stage;
use crate::state::volumes::KnownVolume;
use crate::state::{Disturbance, State};

/// All plans together, for one cycle.
#[derive(Debug, Default)]
pub struct Assumed<'a> {
    claim_of: BTreeMap<&'a str, &'a ClaimName>,
    node_of: BTreeMap<&'a ClaimName, &'a Arc<str>>,
}

impl<'a> Assumed<'a> {
    /// `O(placed pods whose plans are not seen yet)`.
    pub fn new(state: &'a State) -> Self {
        let mut assumed = Self::default();
        for id in &state.volumes.planning {
            let Some(pod) = state.pod(*id) else { continue };
            let Some((node, plan)) = pod.plan.as_deref() else { continue };
            for (claim, volume) in &plan.bindings {
                assumed.claim_of.insert(volume, claim);
            }
            for claim in &plan.provisions {
                assumed.node_of.insert(claim, node);
            }
        }
        assumed
    }

    /// The node that a claim's volume is made for.
    pub fn selected_node(&self, claim: &'a VolumeClaim) -> Option<&'a Arc<str>> {
        claim.selected_node.as_ref().or_else(|| self.node_of.get(&claim.name).copied())
    }

    /// Whether a volume is bound to this claim, or kept for it; `None` if it is free.
    pub fn is_for(&self, volume: &KnownVolume, claim: &VolumeClaim) -> Option<bool> {
        match &volume.facts.claim {
            Some(reference) => Some(reference.means(claim)),
            None => self.claim_of.get(&*volume.facts.name).map(|name| **name == claim.name),
        }
    }
}

impl State {
    /// The plan of a pod that was just placed counts from now on.
    pub(crate) fn assume_volumes(&mut self, id: PodId, plan: VolumePlan) {
        debug_assert!(self.transactions.is_empty(), "plans are made for placements that stand");
        let Some(node) = self.pods.get(id.index()).and_then(|p| p.placed.as_ref()).map(|p| p.node) else { return };
        let node = self.nodes.at(node.index()).name().clone();
        self.pods.at_mut(id.index()).plan = Some(Box::new((node, plan)));
        self.volumes.planning.insert(id);
    }

    /// A placement came to nothing: what was planned for it is free for others.
    pub(in crate::state) fn give_back_plan(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id.index()).filter(|p| p.plan.is_some()) else { return };
        let class = entry.class;
        let Some(plan) = self.pods.at_mut(id.index()).plan.take() else { return };
        self.volumes.planning.remove(&id);
        for (claim, volume) in &plan.1.bindings {
            let class = self.volumes.volume(volume).map(|v| v.facts.class.clone());
            self.disturbances.push(Disturbance::Volume { name: volume.clone(), claim: Some(claim.clone()), class });
        }
        for claim in &plan.1.provisions {
            self.disturbances.push(Disturbance::Claim(claim.clone()));
        }
        if let Some(volumes) = &self.classes.get(class).spec.volumes {
            self.disturbances.push(Disturbance::Shared(volumes.clone()));
        }
    }

    /// Forgets the plan of a pod that is bound, once the objects say what was planned.
    pub(in crate::state) fn settle_plan(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id.index()) else { return };
        let bound = entry.placed.as_ref().is_some_and(|p| p.stage == Stage::Bound);
        let Some(plan) = entry.plan.as_ref().filter(|_| bound) else { return };
        let bindings = plan.1.bindings.iter();
        let seen = bindings.map(|b| &b.1).all(|v| self.volumes.volume(v).is_none_or(|v| v.facts.claim.is_some()))
            && plan.1.provisions.iter().all(|claim| {
                let claim = self.volumes.claim(claim);
                claim.is_none_or(|c| c.selected_node.is_some() || c.is_bound())
            });
        if seen {
            self.pods.at_mut(id.index()).plan = None;
            self.volumes.planning.remove(&id);
        }
    }
}
