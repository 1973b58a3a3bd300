//! Disks and claims that pods must not share.

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict, VolumeReason};
use crate::model::{AccessMode, InlineDisk};
use crate::state::{Class, NodeFacts, NodeState, PodVolumes, State};

/// `VolumeRestrictions`: disks that pods name themselves, on one node; claims for one pod only, anywhere.
#[derive(Debug, Clone, Copy)]
pub struct VolumeRestrictions;

impl CyclePlugin for VolumeRestrictions {
    fn name(&self) -> PluginName {
        "VolumeRestrictions"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        let volumes = class.spec.volumes.as_deref()?;
        let (missing, in_use) = match claims(state, volumes) {
            Ok(in_use) => (None, in_use),
            Err(missing) => (Some(missing), false),
        };
        let disks: Vec<&InlineDisk> = volumes.disks.iter().filter(|d| d.is_exclusive()).collect();
        let silent = missing.is_none() && !in_use && disks.is_empty();
        (!silent).then(|| -> Box<dyn CycleState + 'a> { Box::new(Restrictions { state, missing, in_use, disks }) })
    }
}

/// Whether a claim for one pod is in use. Claims of ephemeral volumes are not looked at: they are one pod's anyway.
fn claims(state: &State, volumes: &PodVolumes) -> Result<bool, VolumeReason> {
    let mut in_use = false;
    for claim in volumes.claims.iter().filter(|c| c.made_for.is_none()) {
        let name = || claim.name.name.clone();
        let known = state.volumes().claim(&claim.name).ok_or_else(|| VolumeReason::ClaimNotFound(name()))?;
        let for_one = known.access_modes.contains(&AccessMode::ReadWriteOncePod);
        in_use |= for_one && state.is_claim_in_use(&claim.name);
    }
    Ok(in_use)
}

struct Restrictions<'a> {
    state: &'a State,
    missing: Option<VolumeReason>,
    in_use: bool,
    disks: Vec<&'a InlineDisk>,
}

impl CycleState for Restrictions<'_> {
    fn pre_filter(&self) -> Option<Reason> {
        self.missing.clone().map(Reason::Volume)
    }
    fn filter(&self, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        if !self.disks.is_empty() && self.disk_conflict(node) {
            return Verdict::unschedulable(Reason::Volume(VolumeReason::DiskConflict));
        }
        if self.in_use {
            return Verdict::unschedulable(Reason::Volume(VolumeReason::InUse));
        }
        Verdict::Pass
    }
}

impl Restrictions<'_> {
    fn disk_conflict(&self, node: &NodeState) -> bool {
        let volumes = node.voluminous().iter().filter_map(|id| {
            let pod = self.state.pod(*id)?;
            self.state.class(pod.class).spec.volumes.as_ref()
        });
        volumes.flat_map(|v| &v.disks).any(|there| self.disks.iter().any(|ours| ours.conflicts(there)))
    }
}
