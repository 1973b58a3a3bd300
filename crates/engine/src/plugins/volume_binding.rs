//! Claims: bound ones have to be reachable from the node, others get their volumes with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::contract::PreBindStep;
use crate::framework::{CyclePlugin, CycleState, PluginName, PreBind, Reason, Verdict, VolumeReason};
use crate::model::{BindingMode, NodeId, PodId, VolumeClaim, VolumePlan};
use crate::plugins::volume_matching::Wanting;
use crate::state::{Assumed, Class, KnownCapacity, KnownVolume, NodeFacts, NodeState, PodClaim, PodVolumes, State};

/// A class whose volumes nobody makes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// `VolumeBinding`. What it plans for the node that wins is assumed with the placement, and carried out before the bind.
#[derive(Debug, Clone, Copy)]
pub struct VolumeBinding;

impl CyclePlugin for VolumeBinding {
    fn name(&self) -> PluginName {
        "VolumeBinding"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        let volumes = class.spec.volumes.as_deref().filter(|v| !v.claims.is_empty())?;
        Some(match Claims::new(state, volumes) {
            Ok(claims) => Box::new(claims),
            Err(reason) => Box::new(Barred(reason)),
        })
    }
}

impl PreBind for VolumeBinding {
    fn name(&self) -> PluginName {
        "VolumeBinding"
    }
    fn pre_bind(&self, state: &State, pod: PodId, _node: NodeId) -> Option<PreBindStep> {
        let (_, plan) = state.pod(pod)?.plan.as_deref()?;
        (!plan.is_empty()).then(|| PreBindStep::BindVolumes(plan.clone()))
    }
}

/// No node will do.
struct Barred(VolumeReason);

impl CycleState for Barred {
    fn pre_filter(&self) -> Option<Reason> {
        Some(Reason::Volume(self.0.clone()))
    }
}

/// The claims of a pod, by what is to be done for them.
struct Claims<'a> {
    state: &'a State,
    bound: Vec<&'a VolumeClaim>,
    /// Those whose node is chosen already, because another pod's placement did or because making a volume began.
    pinned: Vec<(&'a VolumeClaim, &'a str)>,
    /// Those that get a volume with the pod's node, by size.
    wanting: Vec<Wanting<'a>>,
}

/// What a node would do for the claims.
#[derive(Default)]
struct Outcome<'a> {
    bindings: Vec<(&'a VolumeClaim, &'a KnownVolume)>,
    /// With what the maker of volumes has left, if it says.
    provisions: Vec<(&'a VolumeClaim, Option<&'a KnownCapacity>)>,
}

impl<'a> Claims<'a> {
    fn new(state: &'a State, volumes: &'a PodVolumes) -> Result<Self, VolumeReason> {
        let known: Vec<&VolumeClaim> =
            volumes.claims.iter().map(|claim| usable(state, claim)).collect::<Result<_, _>>()?;
        let (bound, unbound): (Vec<_>, Vec<_>) = known.into_iter().partition(|c| c.is_bound());
        if !unbound.iter().all(|claim| waits_for_consumer(state, claim)) {
            return Err(VolumeReason::UnboundImmediate);
        }
        let (mut pinned, mut wanting) = (Vec::new(), Vec::new());
        if !unbound.is_empty() {
            let assumed = Assumed::new(state);
            for claim in unbound {
                match assumed.selected_node(claim) {
                    Some(node) => pinned.push((claim, &**node)),
                    None => wanting.push(Wanting::new(state, &assumed, claim)),
                }
            }
        }
        wanting.sort_by_key(|w| w.claim.requested.unwrap_or_default());
        Ok(Self { state, bound, pinned, wanting })
    }

    /// What the node would do, or why it does not do.
    fn on(&self, node: &NodeState, facts: &NodeFacts) -> Result<Outcome<'a>, SmallVec<[Reason; 1]>> {
        let mut reasons = SmallVec::new();
        let bound = self.check_bound(node, facts);
        if bound == Err(VolumeReason::NodeAffinity) {
            reasons.push(Reason::Volume(VolumeReason::NodeAffinity));
        }
        let outcome = self.find(node, facts);
        if let Err(reason) = &outcome {
            reasons.push(Reason::Volume(reason.clone()));
        }
        if bound == Err(VolumeReason::NoSuchVolume) {
            reasons.push(Reason::Volume(VolumeReason::NoSuchVolume));
        }
        outcome.map_err(|_| ()).and_then(|o| if reasons.is_empty() { Ok(o) } else { Err(()) }).map_err(|()| reasons)
    }

    /// Whether the node reaches all volumes of bound claims.
    fn check_bound(&self, node: &NodeState, facts: &NodeFacts) -> Result<(), VolumeReason> {
        let csi = self.state.volumes().csi_node(node.name());
        for claim in &self.bound {
            let volume = claim.volume.as_ref().and_then(|name| self.state.volumes().volume(name));
            let volume = volume.ok_or(VolumeReason::NoSuchVolume)?;
            if !volume.reaches_by(self.state, facts, csi) {
                return Err(VolumeReason::NodeAffinity);
            }
        }
        Ok(())
    }

    /// Volumes for all claims that have none.
    fn find(&self, node: &NodeState, facts: &NodeFacts) -> Result<Outcome<'a>, VolumeReason> {
        if self.pinned.iter().any(|(_, chosen)| **chosen != **node.name()) {
            return Err(VolumeReason::NoneToBind);
        }
        let mut outcome = Outcome::default();
        let mut to_make: Vec<&VolumeClaim> = self.pinned.iter().map(|(claim, _)| *claim).collect();
        let mut chosen: Vec<&KnownVolume> = Vec::new();
        for wanting in &self.wanting {
            match wanting.find(self.state, facts, &chosen) {
                Some(volume) => {
                    chosen.push(volume);
                    outcome.bindings.push((wanting.claim, volume));
                }
                None => to_make.push(wanting.claim),
            }
        }
        for claim in to_make {
            outcome.provisions.push((claim, self.provision(claim, facts)?));
        }
        Ok(outcome)
    }

    /// Whether a volume can be made for the claim and this node; with the capacity that it would be taken of.
    fn provision(&self, claim: &VolumeClaim, facts: &NodeFacts) -> Result<Option<&'a KnownCapacity>, VolumeReason> {
        let known = self.state.volumes();
        let class = known.class(&claim.class).ok_or(VolumeReason::NoneToBind)?;
        let provisioner: &str = &class.facts.provisioner;
        if provisioner.is_empty() || provisioner == NO_PROVISIONER || !class.allows(self.state, facts) {
            return Err(VolumeReason::NoneToBind);
        }
        let Some(size) = claim.requested else { return Ok(None) };
        if !known.csi_driver(provisioner).is_some_and(|d| d.storage_capacity) {
            return Ok(None);
        }
        let enough = |c: &&KnownCapacity| {
            c.facts.class == claim.class
                && c.facts.limit().is_some_and(|limit| limit.value() >= size.value())
                && c.is_for(self.state, facts)
        };
        known.capacities().find(enough).map(Some).ok_or(VolumeReason::NotEnoughSpace)
    }
}

/// The claim, if it is there and not on its way out.
fn usable<'a>(state: &'a State, claim: &PodClaim) -> Result<&'a VolumeClaim, VolumeReason> {
    let name = || claim.name.name.clone();
    let Some(known) = state.volumes().claim(&claim.name) else {
        let missing =
            if claim.made_for.is_some() { VolumeReason::EphemeralNotMade } else { VolumeReason::ClaimNotFound };
        return Err(missing(name()));
    };
    if known.lost {
        return Err(VolumeReason::Lost { claim: name(), volume: known.volume.clone().unwrap_or_default() });
    }
    if known.terminating {
        return Err(VolumeReason::Terminating(name()));
    }
    match &claim.made_for {
        Some((uid, pod)) if known.owner.as_ref() != Some(uid) => {
            Err(VolumeReason::NotForPod { claim: claim.name.clone(), pod: pod.clone() })
        }
        _ => Ok(known),
    }
}

/// Whether an unbound claim is bound with its pod's node. One that names its volume is the volume controller's.
fn waits_for_consumer(state: &State, claim: &VolumeClaim) -> bool {
    let class = state.volumes().class(&claim.class).filter(|_| !claim.class.is_empty());
    claim.volume.is_none() && class.is_some_and(|c| c.facts.binding == Some(BindingMode::WaitForFirstConsumer))
}

impl CycleState for Claims<'_> {
    fn filter(&self, node: &NodeState, facts: &NodeFacts) -> Verdict {
        match self.on(node, facts) {
            Ok(_) => Verdict::Pass,
            Err(reasons) => Verdict::Reject { permanent: true, reasons },
        }
    }

    fn score(&self, feasible: &[(NodeId, &NodeState)]) -> Option<Vec<i64>> {
        if self.pinned.is_empty() && self.wanting.is_empty() {
            return None;
        }
        let points =
            |node: &NodeState| node.facts().and_then(|facts| self.on(node, facts).ok()).map_or(0, |o| o.points());
        Some(feasible.iter().map(|(_, node)| points(node)).collect())
    }

    fn plan(&self, node: &NodeState, facts: &NodeFacts) -> Option<VolumePlan> {
        let outcome = self.on(node, facts).ok()?;
        let bindings = outcome.bindings.iter().map(|(claim, volume)| (claim.name.clone(), volume.facts.name.clone()));
        let provisions = outcome.provisions.iter().map(|(claim, _)| claim.name.clone());
        Some(VolumePlan { bindings: bindings.collect(), provisions: provisions.collect() })
    }
}

impl Outcome<'_> {
    /// The less of the storage is used the better, each class counting alike: of the volumes that are bound if there are
    /// any, else of what the makers of volumes have left.
    fn points(&self) -> i64 {
        // By class: asked, and there is.
        let mut classes: BTreeMap<&Arc<str>, (i64, i64)> = BTreeMap::new();
        let size = |claim: &VolumeClaim| claim.requested.unwrap_or_default().value();
        for (claim, volume) in &self.bindings {
            let (asked, there) = classes.entry(&volume.facts.class).or_default();
            *asked = asked.saturating_add(size(claim));
            *there = there.saturating_add(volume.facts.capacity.value());
        }
        if self.bindings.is_empty() {
            for (claim, capacity) in &self.provisions {
                let Some(capacity) = capacity else { continue };
                let (asked, there) = classes.entry(&claim.class).or_default();
                *asked = asked.saturating_add(size(claim));
                *there = capacity.facts.capacity.unwrap_or_default().value();
            }
        }
        let points = |(asked, there): &(i64, i64)| match *there {
            0 => 0,
            there if *asked > there => 0,
            // In 128 bits: a volume of some tens of PiB would overflow kube-scheduler's product.
            there => 100 - i64::try_from(i128::from(*asked) * 100 / i128::from(there)).unwrap_or(100),
        };
        let sum: i64 = classes.values().map(points).sum();
        match i64::try_from(classes.len()) {
            Ok(0) | Err(_) => 0,
            // Rounded, half up.
            Ok(count) => (2 * sum + count) / (2 * count),
        }
    }
}
