//! Who may be asking.

use gpu_scheduler_engine::model::{ContainerAllocation, GrantKind};

use super::{Expected, View};
use crate::checkpoint::{Entry, Holder};
use crate::inventory::DeviceUuid;
use crate::pods::{NodePod, PodContainer};
use crate::resources::{DeviceId, Hold, Resource};

/// A container that may be asking.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    pub pod: &'a NodePod,
    pub container: &'a PodContainer,
    /// What the record gives it; `None` where there is no record, or none that says devices of this resource.
    pub expected: Option<Vec<Expected>>,
}

impl Candidate<'_> {
    pub fn holder(&self) -> Holder {
        holder(self.pod, self.container)
    }

    /// The devices that the record names, as often as it names them.
    pub fn devices(&self) -> Option<Vec<&DeviceUuid>> {
        let mut devices: Vec<_> = self.expected.as_ref()?.iter().map(|expected| &expected.device).collect();
        devices.sort();
        Some(devices)
    }

    /// Ids that the pod's init containers were given: kubelet gives them to its other containers again.
    pub fn left_behind(&self, view: &View<'_>, resource: &Resource) -> Vec<DeviceId> {
        let mine = |entry: &&Entry| {
            let holder = entry.holder.as_ref();
            entry.resource == resource.name
                && holder.is_some_and(|holder| holder.init && holder.uid.as_ref() == Some(&self.pod.uid))
        };
        view.entries.iter().filter(mine).flat_map(|entry| &entry.devices).map(|device| device.id.clone()).collect()
    }
}

pub(super) fn holder(pod: &NodePod, container: &PodContainer) -> Holder {
    Holder {
        uid: Some(pod.uid.clone()),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        container: container.name.clone(),
        init: container.init,
    }
}

/// Containers of pods in flight that may be asking for `size` of this resource, the likeliest first.
///
/// kubelet asks for one container after the other, so of each pod it is the next one that has not got it. Only where no
/// pod fits that way (what was given before was lost), any later one counts.
pub(super) fn candidates<'a>(view: &View<'a>, resource: &Resource, size: usize) -> Vec<Candidate<'a>> {
    let waiting = |pod: &'a NodePod| {
        pod.containers.iter().filter(move |container| wants(container, resource) > 0).filter(move |container| {
            !view.entries.iter().any(|entry| entry.resource == resource.name && entry.is_of(&pod.uid, &container.name))
        })
    };
    let in_flight = || view.pods.iter().filter(|pod| pod.in_flight());
    let fits = |container: &&PodContainer| wants(container, resource) == size;
    let candidate = |(pod, container)| candidate(view, resource, pod, container);
    let next = in_flight().filter_map(|pod| Some((pod, waiting(pod).next().filter(fits)?)));
    let next: Vec<_> = next.map(candidate).collect();
    if !next.is_empty() {
        return next;
    }
    in_flight().filter_map(|pod| Some((pod, waiting(pod).find(fits)?))).map(candidate).collect()
}

/// Containers that have what they want already. kubelet asks for them again only if it lost what it knew.
pub(super) fn again<'a>(view: &View<'a>, resource: &Resource, size: usize) -> Vec<Candidate<'a>> {
    let containers = view.pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    containers
        .filter(|(_, container)| wants(container, resource) == size)
        .filter_map(|(pod, container)| {
            let mut candidate = candidate(view, resource, pod, container);
            // What it was given counts before what it should have been given.
            let given = view
                .entries
                .iter()
                .find(|entry| entry.resource == resource.name && entry.is_of(&pod.uid, &container.name));
            match given {
                Some(entry) => candidate.expected = Some(as_expected(entry, candidate.expected.as_deref())),
                None if pod.in_flight() => return None,
                None => {}
            }
            candidate.expected.is_some().then_some(candidate)
        })
        .collect()
}

fn as_expected(entry: &Entry, record: Option<&[Expected]>) -> Vec<Expected> {
    let compute = |at: usize| record.and_then(|record| record.get(at)).map_or(Default::default(), |it| it.compute);
    let devices = entry.devices.iter().enumerate();
    devices
        .map(|(at, held)| Expected {
            device: held.id.device.clone(),
            card: held.card.clone(),
            memory: held.memory,
            compute: compute(at),
        })
        .collect()
}

fn wants(container: &PodContainer, resource: &Resource) -> usize {
    container.devices.get(resource.name.as_str()).map_or(0, |&count| count as usize)
}

fn candidate<'a>(view: &View<'_>, resource: &Resource, pod: &'a NodePod, container: &'a PodContainer) -> Candidate<'a> {
    Candidate { pod, container, expected: expected(view, resource, pod, &container.name) }
}

/// What the pod's record gives this container of this resource.
pub(super) fn expected(view: &View<'_>, resource: &Resource, pod: &NodePod, container: &str) -> Option<Vec<Expected>> {
    let record = pod.record.as_ref()?;
    let mine = record.containers.iter().filter(|entry| entry.name == container && is_kind(entry, resource.hold));
    let mut expected = Vec::new();
    for grant in mine.flat_map(|entry| &entry.devices) {
        let (device, card) = view.named(grant)?;
        // A container may have slices of several profiles: each is a resource of its own.
        if matches!(device, DeviceUuid::Mig(_)) && !resource.units.iter().any(|unit| unit.id.device == device) {
            continue;
        }
        expected.push(Expected { device, card, memory: grant.memory, compute: grant.compute });
    }
    (!expected.is_empty()).then_some(expected)
}

/// Whether a part of a record speaks of what this resource gives.
fn is_kind(entry: &ContainerAllocation, hold: Hold) -> bool {
    let partitioned = entry.devices.iter().any(|device| device.mig.is_some());
    match (entry.kind, hold) {
        (None, Hold::Slice) => partitioned,
        (None, Hold::Whole | Hold::Share) => !partitioned,
        (None, Hold::Replica { .. }) => true,
        (Some(GrantKind::Whole), _) => hold == Hold::Whole,
        (Some(GrantKind::Share), _) => hold == Hold::Share,
        (Some(GrantKind::Mig), _) => matches!(hold, Hold::Slice | Hold::Replica { .. }),
        (Some(GrantKind::Seat), _) => matches!(hold, Hold::Replica { .. }),
    }
}
