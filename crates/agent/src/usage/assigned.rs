//! Who was given what: by kubelet's list, and by the scheduler's records where it lists nothing yet.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_engine::model::{DeviceGrant, GrantKind, Mib};

use super::KnownBy;
use super::index::{Owner, PodIndex};
use crate::checkpoint::Listed;
use crate::inventory::{Card, DeviceUuid, MigUuid};
use crate::pods::NodePod;

/// Whose something on a card is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose<'a> {
    /// Of a pod that the API server has shown.
    Pod(Owner),
    /// Of a container that only kubelet names.
    Unseen { namespace: &'a str, pod: &'a str, container: &'a str },
}

/// What somebody has of a card.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amounts {
    pub by: KnownBy,
    pub granted: Option<Mib>,
    pub used: Option<Mib>,
}

impl Amounts {
    pub fn known(by: KnownBy) -> Self {
        Self { by, granted: None, used: None }
    }
}

/// What is held of a card, by whom and on which GPU instance.
pub(super) type Held<'a> = BTreeMap<(Whose<'a>, Option<u32>), Amounts>;

/// The node's pods, and what they were given.
#[derive(Debug)]
pub struct Assignments<'a> {
    pub(super) pods: PodIndex<'a>,
    /// Whom kubelet lists at a device, and whether with a seat or replica of it.
    by_device: BTreeMap<&'a DeviceUuid, BTreeMap<Whose<'a>, bool>>,
    /// The containers that kubelet lists at any device.
    listed: BTreeSet<Owner>,
}

impl<'a> Assignments<'a> {
    /// Of these pods, with kubelet's list. `O(containers + ids)`.
    pub fn new(pods: &'a [NodePod], list: &'a [Listed]) -> Self {
        let pods = PodIndex::new(pods);
        let mut by_device: BTreeMap<_, BTreeMap<_, bool>> = BTreeMap::new();
        let mut listed = BTreeSet::new();
        for item in list {
            let whose = match pods.listed(item) {
                Some(owner) => {
                    listed.insert(owner);
                    Whose::Pod(owner)
                }
                None => Whose::Unseen { namespace: &item.namespace, pod: &item.name, container: &item.container },
            };
            for id in &item.ids {
                *by_device.entry(&id.device).or_default().entry(whose).or_default() |= id.seat.is_some();
            }
        }
        Self { pods, by_device, listed }
    }

    /// What was given of a card, and whether it is shared: somebody was given less than all of it.
    pub(super) fn on(&self, card: &Card) -> (Held<'a>, bool) {
        let mut held = Held::new();
        let mut shared = false;
        let parts = card.mig.devices().iter().map(|part| (DeviceUuid::Mig(part.uuid.clone()), Some(part.gpu_instance)));
        for (device, instance) in std::iter::once((DeviceUuid::Gpu(card.uuid.clone()), None)).chain(parts) {
            for (whose, seat) in self.by_device.get(&device).into_iter().flatten() {
                shared |= *seat && instance.is_none();
                held.insert((*whose, instance), Amounts::known(KnownBy::Kubelet));
            }
        }
        for (pod, known) in self.pods.pods().iter().enumerate() {
            for (container, kind, grant) in grants(known, card) {
                let owner = Owner { pod, container };
                let Some(place) = self.place(owner, gpu_instance(card, grant), &held) else { continue };
                shared |= is_part(kind, grant, card);
                let amounts = held.entry(place).or_insert(Amounts::known(KnownBy::Record));
                amounts.granted = Some(amounts.granted.unwrap_or_default().saturating_add(grant.memory));
            }
        }
        (held, shared)
    }

    /// Where a record's grant counts; `None` where kubelet gave the container something else.
    fn place(&self, owner: Owner, instance: Option<u32>, held: &Held<'a>) -> Option<(Whose<'a>, Option<u32>)> {
        let place = (Whose::Pod(owner), instance);
        if !self.listed.contains(&owner) || held.contains_key(&place) {
            return Some(place);
        }
        // A record that was written before the MIG devices were known names none of them.
        let given = held.keys().find(|(whose, _)| *whose == place.0);
        given.filter(|_| instance.is_none()).copied()
    }
}

/// The grants of a pod on a card: container, kind, grant.
fn grants<'a>(
    pod: &'a NodePod,
    card: &'a Card,
) -> impl Iterator<Item = (Option<usize>, Option<GrantKind>, &'a DeviceGrant)> {
    let containers = pod.record.iter().flat_map(|record| &record.containers);
    containers.flat_map(move |granted| {
        let place = pod.containers.iter().position(|known| known.name == granted.name);
        let devices = granted.devices.iter().filter(|device| device.uuid == card.uuid.as_str());
        devices.map(move |device| (place, granted.kind, device))
    })
}

fn is_part(kind: Option<GrantKind>, grant: &DeviceGrant, card: &Card) -> bool {
    match kind {
        Some(GrantKind::Share | GrantKind::Seat) => true,
        Some(GrantKind::Whole | GrantKind::Mig) => false,
        None => grant.mig.is_none() && grant.memory < card.memory,
    }
}

fn gpu_instance(card: &Card, grant: &DeviceGrant) -> Option<u32> {
    let uuid = MigUuid::from(grant.mig.as_deref()?);
    card.mig.devices().iter().find(|part| part.uuid == uuid).map(|part| part.gpu_instance)
}
