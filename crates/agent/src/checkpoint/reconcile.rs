//! The books against what kubelet lists and which pods live.

use std::collections::BTreeSet;

use gpu_scheduler_engine::model::{Millis, PodUid, Timestamp};

use super::{Entry, Holder};
use crate::allocate::{View, entry_of, recorded_devices};
use crate::pods::NodePod;
use crate::report::Report;
use crate::resources::{DeviceId, ResourceName};

/// Devices of one resource that kubelet lists at a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container.
    pub container: String,
    /// The resource.
    pub resource: ResourceName,
    /// The ids.
    pub ids: Vec<DeviceId>,
}

impl Listed {
    fn is_of(&self, holder: &Holder) -> bool {
        self.container == holder.container && self.is_in(holder)
    }

    fn is_in(&self, holder: &Holder) -> bool {
        self.namespace == holder.namespace && self.name == holder.name
    }

    fn same_ids(&self, entry: &Entry) -> bool {
        let listed: BTreeSet<_> = self.ids.iter().collect();
        listed == entry.devices.iter().map(|device| &device.id).collect()
    }
}

/// The books afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// What is handed out.
    pub entries: Vec<Entry>,
    /// What came to light.
    pub reports: Vec<Report>,
}

/// Brings `view.entries` up to what kubelet lists (`None`: it could not be asked) and which pods live.
///
/// kubelet's list says who holds what, and counts before what was assumed when it asked. It leaves out init containers, so
/// an entry ends only when kubelet does not list it and its pod is not among those that live. What was given to nobody that
/// is known has no pod to live; it ends when kubelet does not list it after `grace`. While kubelet or the API server
/// cannot be asked, nothing ends.
pub fn reconcile(view: &View<'_>, listed: Option<&[Listed]>, now: Timestamp, grace: Millis) -> Reconciled {
    let mut entries = view.entries.to_vec();
    let mut reports = Vec::new();
    let Some(listed) = listed else { return Reconciled { entries, reports } };
    for item in listed {
        adopt(view, item, listed, &mut entries, &mut reports, now);
    }
    let live: BTreeSet<&PodUid> = view.pods.iter().map(|pod| &pod.uid).collect();
    let shown = |entry: &Entry| listed.iter().any(|item| item.resource == entry.resource && confirms(item, entry));
    let lives = |entry: &Entry| {
        let uid = entry.holder.as_ref().and_then(|holder| holder.uid.as_ref());
        uid.is_some_and(|uid| live.contains(uid))
    };
    let fresh = |entry: &Entry| entry.holder.is_none() && now < entry.at + grace;
    entries.retain(|entry| !view.synced || shown(entry) || lives(entry) || fresh(entry));
    Reconciled { entries, reports }
}

fn confirms(item: &Listed, entry: &Entry) -> bool {
    entry.holder.as_ref().is_some_and(|holder| item.is_of(holder)) && item.same_ids(entry)
}

/// Takes over one thing that kubelet lists.
fn adopt(
    view: &View<'_>,
    item: &Listed,
    listed: &[Listed],
    entries: &mut Vec<Entry>,
    reports: &mut Vec<Report>,
    now: Timestamp,
) {
    let pod = view.pods.iter().find(|pod| pod.namespace == item.namespace && pod.name == item.name);
    let known = |entry: &&mut Entry| {
        entry.resource == item.resource && entry.holder.as_ref().is_some_and(|holder| item.is_of(holder))
    };
    // The same name with another UID is another pod.
    let other = |holder: &Holder| matches!((&holder.uid, pod), (Some(uid), Some(pod)) if *uid != pod.uid);
    if let Some(entry) = entries.iter_mut().find(known)
        && item.same_ids(entry)
        && !entry.holder.as_ref().is_some_and(other)
    {
        if let (Some(holder), Some(pod)) = (&mut entry.holder, pod) {
            holder.uid.get_or_insert_with(|| pod.uid.clone());
        }
        return;
    }
    let holder = holder_of(item, pod);
    let Some(mut entry) = entry_of(view, &item.resource, &item.ids, pod, holder.clone(), now) else { return };
    let superseded = |old: &Entry| {
        old.resource == item.resource
            && match &old.holder {
                None => old.overlaps(&item.ids),
                Some(theirs) if item.is_of(theirs) => true,
                // What a pod's init container left to it is listed at the other container only.
                Some(theirs) if item.is_in(theirs) => false,
                Some(_) => old.overlaps(&item.ids) && !listed.iter().any(|other| confirms(other, old)),
            }
    };
    if let Some(at) = entries.iter().filter(|old| superseded(old)).map(|old| old.at).min() {
        entry.at = at;
    }
    entries.retain(|old| !superseded(old));
    if let Some(pod) = pod {
        let expected = recorded_devices(view, &item.resource, pod, &item.container);
        let mut gave: Vec<_> = item.ids.iter().map(|id| id.device.clone()).collect();
        gave.sort();
        if let Some(expected) = expected.filter(|expected| *expected != gave) {
            reports.push(Report::Mismatch { to: holder, resource: item.resource.clone(), expected, gave });
        }
    }
    entries.push(entry);
}

fn holder_of(item: &Listed, pod: Option<&NodePod>) -> Holder {
    let container = pod.and_then(|pod| pod.containers.iter().find(|container| container.name == item.container));
    Holder {
        uid: pod.map(|pod| pod.uid.clone()),
        namespace: item.namespace.clone(),
        name: item.name.clone(),
        container: item.container.clone(),
        init: container.is_some_and(|container| container.init),
    }
}
