//! Which free volume a claim gets, as the volume controller would choose it.

use crate::model::VolumeClaim;
use crate::state::{Assumed, KnownVolume, NodeFacts, State};

/// A claim that is bound when its pod has a node, with the volumes that could be its own on some node.
pub(super) struct Wanting<'a> {
    pub claim: &'a VolumeClaim,
    /// Volumes that are bound to it or kept for it, by name.
    own: Vec<&'a KnownVolume>,
    /// Free ones that suit it, the smallest first, of equal ones by name.
    free: Vec<&'a KnownVolume>,
}

impl<'a> Wanting<'a> {
    /// `O(volumes of the class)`.
    pub fn new(state: &'a State, assumed: &Assumed<'a>, claim: &'a VolumeClaim) -> Self {
        let (mut own, mut free) = (Vec::new(), Vec::new());
        for volume in state.volumes().of_class(&claim.class).filter(|v| has_room(v, claim)) {
            match assumed.is_for(volume, claim) {
                Some(true) => own.push(volume),
                None if suits(volume, claim) => free.push(volume),
                Some(false) | None => {}
            }
        }
        // A stable sort, so that names decide between equals.
        free.sort_by_key(|v| v.facts.capacity);
        Self { claim, own, free }
    }

    /// The volume that it gets on a node, none of those that were `chosen` already.
    pub fn find(&self, state: &State, node: &NodeFacts, chosen: &[&KnownVolume]) -> Option<&'a KnownVolume> {
        let left = |v: &&&KnownVolume| chosen.iter().all(|c| c.facts.name != v.facts.name);
        // One that is kept for it and cannot be reached bars all others.
        if let Some(own) = self.own.iter().find(left) {
            return own.reaches(state, node).then_some(*own);
        }
        self.free.iter().filter(left).find(|v| v.reaches(state, node)).copied()
    }
}

/// What even a volume that is kept for the claim must have.
fn has_room(volume: &KnownVolume, claim: &VolumeClaim) -> bool {
    let facts = &volume.facts;
    facts.capacity >= claim.requested.unwrap_or_default()
        && facts.block == claim.block
        && facts.attributes_class == claim.attributes_class
        && !facts.terminating
}

fn suits(volume: &KnownVolume, claim: &VolumeClaim) -> bool {
    let facts = &volume.facts;
    facts.available
        && claim.selector.as_ref().is_none_or(|s| s.matches(&facts.labels))
        && claim.access_modes.is_subset(&facts.access_modes)
}
