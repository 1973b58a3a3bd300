//! How many volumes a node attaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict, VolumeReason};
use crate::model::{ClaimName, CsiNode, VolumeClaim, VolumeSource, counts_as_csi, csi_driver_of};
use crate::state::{Class, NodeFacts, NodeState, PodClaim, PodVolumes, State};

/// `NodeVolumeLimits`: volumes of CSI drivers, against what each driver says of the node.
#[derive(Debug, Clone, Copy)]
pub struct NodeVolumeLimits;

impl CyclePlugin for NodeVolumeLimits {
    fn name(&self) -> PluginName {
        "NodeVolumeLimits"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        let volumes = class.spec.volumes.as_deref()?;
        if volumes.claims.is_empty() && volumes.disks.iter().all(|d| d.migrated.is_none()) {
            return None;
        }
        let missing = volumes.claims.iter().find(|c| state.volumes().claim(&c.name).is_none());
        let missing = missing.map(|c| c.name.clone());
        let (mut with_csi, mut without) = (Attached::new(), Attached::new());
        count(state, volumes, true, &mut with_csi);
        count(state, volumes, false, &mut without);
        Some(Box::new(Limits { state, missing, with_csi, without }))
    }
}

/// A volume as its driver knows it; one that is still to be made has only its claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Handle<'a> {
    Known(&'a str),
    Claim(&'a ClaimName),
}

/// Volumes, each with its driver.
type Attached<'a> = BTreeMap<(&'a str, Handle<'a>), &'a str>;

struct Limits<'a> {
    state: &'a State,
    missing: Option<ClaimName>,
    /// The pod's volumes on a node with CSI drivers, and on one without: what an in-tree plugin had counts only there.
    with_csi: Attached<'a>,
    without: Attached<'a>,
}

impl CycleState for Limits<'_> {
    fn filter(&self, node: &NodeState, _facts: &NodeFacts) -> Verdict {
        match self.obstacle(node) {
            None => Verdict::Pass,
            Some(reason @ VolumeReason::ClaimNotFoundOnNode(_)) => Verdict::unresolvable(Reason::Volume(reason)),
            Some(reason) => Verdict::unschedulable(Reason::Volume(reason)),
        }
    }
}

impl Limits<'_> {
    fn obstacle(&self, node: &NodeState) -> Option<VolumeReason> {
        if let Some(missing) = &self.missing {
            return Some(VolumeReason::ClaimNotFoundOnNode(missing.clone()));
        }
        let csi = self.state.volumes().csi_node(node.name());
        let new = if csi.is_some() { &self.with_csi } else { &self.without };
        if let Some(driver) = new.values().find(|driver| self.is_missing(driver, csi)) {
            return Some(VolumeReason::DriverMissing(Arc::from(*driver)));
        }
        let csi = csi.filter(|c| c.drivers.values().any(Option::is_some) && !new.is_empty())?;
        let mut there = Attached::new();
        for pod in node.voluminous().iter().filter_map(|id| self.state.pod(*id)) {
            if let Some(volumes) = &self.state.class(pod.class).spec.volumes {
                count(self.state, volumes, true, &mut there);
            }
        }
        let mut total: BTreeMap<&str, i64> = BTreeMap::new();
        for driver in there.values() {
            *total.entry(driver).or_default() += 1;
        }
        let others = attachments(self.state, node);
        for (_, driver) in others.iter().filter(|(volume, _)| !there.contains_key(volume)) {
            *total.entry(driver).or_default() += 1;
        }
        let mut coming: BTreeMap<&str, i64> = BTreeMap::new();
        for (_, driver) in new.iter().filter(|(volume, _)| !there.contains_key(volume)) {
            *coming.entry(driver).or_default() += 1;
        }
        let too_many = coming.iter().any(|(driver, count)| {
            let limit = csi.drivers.get(*driver).copied().flatten();
            limit.is_some_and(|limit| total.get(driver).copied().unwrap_or(0) + count > limit)
        });
        too_many.then_some(VolumeReason::TooMany)
    }

    /// Whether a node without this driver is told apart, and this one is without it.
    fn is_missing(&self, driver: &str, csi: Option<&CsiNode>) -> bool {
        self.state.volumes().csi_driver(driver).is_some_and(|d| d.needed_on_node)
            && csi.is_none_or(|c| !c.drivers.contains_key(driver))
    }
}

/// What is attached to the node, by its attachments.
fn attachments<'a>(state: &'a State, node: &NodeState) -> Attached<'a> {
    let known = state.volumes();
    let mut attached = Attached::new();
    for attachment in known.attached_to(node.name()) {
        let volume = attachment.volume.as_ref().and_then(|v| known.volume(v));
        if let Some(VolumeSource::Csi(csi)) = volume.map(|v| &v.facts.source)
            && !attachment.attacher.is_empty()
        {
            let driver: &str = &attachment.attacher;
            attached.insert((driver, Handle::Known(&csi.handle)), driver);
        }
    }
    attached
}

/// Counts a pod's volumes, on a node that has CSI drivers or not.
fn count<'a>(state: &'a State, volumes: &'a PodVolumes, has_csi: bool, attached: &mut Attached<'a>) {
    for claim in &volumes.claims {
        let known = state.volumes().claim(&claim.name).filter(|known| is_for(claim, known));
        if let Some((driver, handle)) = known.and_then(|known| identity(state, known, has_csi)) {
            attached.insert((driver, handle), driver);
        }
    }
    for csi in volumes.disks.iter().filter(|_| has_csi).filter_map(|d| d.migrated.as_ref()) {
        attached.insert((&csi.driver, Handle::Known(&csi.handle)), &csi.driver);
    }
}

fn is_for(claim: &PodClaim, known: &VolumeClaim) -> bool {
    claim.made_for.as_ref().is_none_or(|(uid, _)| known.owner.as_ref() == Some(uid))
}

/// What a claim's volume is to its driver; `None` where it does not count.
fn identity<'a>(state: &'a State, claim: &'a VolumeClaim, has_csi: bool) -> Option<(&'a str, Handle<'a>)> {
    let volume = claim.volume.as_ref().and_then(|name| state.volumes().volume(name));
    let Some(volume) = volume else { return to_be_made(state, claim, has_csi) };
    let counts = match &volume.facts.source {
        VolumeSource::Csi(_) => true,
        VolumeSource::InTree { plugin, .. } => has_csi && counts_as_csi(plugin),
        VolumeSource::Other => false,
    };
    let csi = volume.csi().filter(|csi| counts && !csi.driver.is_empty() && !csi.handle.is_empty())?;
    Some((&csi.driver, Handle::Known(&csi.handle)))
}

/// A claim without a volume counts for the driver of its class.
fn to_be_made<'a>(state: &'a State, claim: &'a VolumeClaim, has_csi: bool) -> Option<(&'a str, Handle<'a>)> {
    let class = state.volumes().class(&claim.class).filter(|_| !claim.class.is_empty())?;
    let provisioner: &str = &class.facts.provisioner;
    let driver = match csi_driver_of(provisioner) {
        Some(driver) => (has_csi && counts_as_csi(provisioner)).then_some(driver)?,
        None => provisioner,
    };
    (!driver.is_empty()).then_some((driver, Handle::Claim(&claim.name)))
}
