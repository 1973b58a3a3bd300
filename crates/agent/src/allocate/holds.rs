//! Who holds what on which card, and whether something more would overcommit it.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{ContainerAllocation, DeviceGrant, GrantKind, Mib};

use super::candidates::holder;
use super::refusal::Conflict;
use super::{Expected, View};
use crate::checkpoint::Holder;
use crate::inventory::{DeviceUuid, GpuUuid};
use crate::pods::NodePod;
use crate::resources::{DeviceId, Hold, ResourceName};

/// Something that is held, or promised by a record to a container that kubelet has not asked for yet.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub device: DeviceUuid,
    pub card: GpuUuid,
    pub hold: Hold,
    pub memory: Mib,
    pub by: Option<Holder>,
    pub promised: bool,
    /// What kubelet calls it, once it was given.
    pub id: Option<(ResourceName, DeviceId)>,
}

/// All that is held or promised on the node.
#[derive(Debug, Clone)]
pub(super) struct Holds<'a> {
    view: &'a View<'a>,
    held: Vec<Held>,
}

/// Who would get something.
#[derive(Debug, Clone, Copy)]
pub(super) enum Receiver<'a> {
    /// This container.
    Container(&'a Holder),
    /// Nobody knows.
    Unknown,
}

impl Receiver<'_> {
    /// Whether this takes nothing from the receiver: it is its own, promised to a container of its pod (which then gets
    /// what was promised to the receiver), or left behind by a container that runs before all others.
    fn may_have(self, held: &Held) -> bool {
        let (Self::Container(me), Some(by)) = (self, &held.by) else { return false };
        me.uid.is_some() && me.uid == by.uid && (held.promised || by.init || me.container == by.container)
    }
}

impl<'a> Holds<'a> {
    /// Those of a view. What was given to a container counts instead of what its record promises.
    pub fn of(view: &'a View<'a>) -> Self {
        let given = view.entries.iter().flat_map(|entry| {
            entry.devices.iter().map(|device| Held {
                device: device.id.device.clone(),
                card: device.card.clone(),
                hold: entry.hold,
                memory: device.memory,
                by: entry.holder.clone(),
                promised: false,
                id: Some((entry.resource.clone(), device.id.clone())),
            })
        });
        let mut held: Vec<Held> = given.collect();
        for pod in view.pods {
            held.extend(promised(view, pod));
        }
        Self { view, held }
    }

    /// As if kubelet's word was taken that these ids are free: what is in the books under them, of pods that have
    /// gone, is over.
    pub fn believing(mut self, resource: &ResourceName, free: &[DeviceId]) -> Self {
        let view = self.view;
        let lives = |by: &Option<Holder>| match by {
            Some(Holder { uid: Some(uid), .. }) => view.pods.iter().any(|pod| pod.uid == *uid),
            _ => false,
        };
        let over = |held: &Held| held.id.as_ref().is_some_and(|(of, id)| of == resource && free.contains(id));
        self.held.retain(|held| !(view.synced && over(held) && !lives(&held.by)));
        self
    }

    /// Whether nothing at all is held or promised there by anybody else.
    pub fn is_free(&self, device: &DeviceUuid, card: &GpuUuid, receiver: Receiver<'_>) -> bool {
        !self.others(card, receiver).any(|held| meets(device, held))
    }

    /// How much of a card others hold, for packing: holders, and memory of shares.
    pub fn load(&self, card: &GpuUuid, device: Option<&DeviceUuid>) -> (usize, Mib) {
        let here = self.held.iter().filter(|held| held.card == *card && device.is_none_or(|it| held.device == *it));
        here.fold((0, Mib(0)), |(n, memory), held| (n + 1, Mib(memory.0.saturating_add(held.memory.0))))
    }

    fn others<'b>(&'b self, card: &'b GpuUuid, receiver: Receiver<'b>) -> impl Iterator<Item = &'b Held> {
        self.held.iter().filter(move |held| held.card == *card && !receiver.may_have(held))
    }

    /// What would overcommit a card if the receiver got these, each taking `hold`.
    pub fn conflict(&self, receiver: Receiver<'_>, hold: Hold, wanted: &[Expected]) -> Option<Conflict> {
        for (at, want) in wanted.iter().enumerate() {
            let in_the_way = self.others(&want.card, receiver).find(|held| {
                meets(&want.device, held)
                    && match (hold, held.hold) {
                        (Hold::Share, Hold::Share) | (Hold::Replica { .. }, Hold::Replica { .. }) => false,
                        (Hold::Whole | Hold::Slice | Hold::Share | Hold::Replica { .. }, _) => true,
                    }
            });
            if let Some(held) = in_the_way {
                return Some(Conflict::Held {
                    device: want.device.clone(),
                    by: held.by.clone(),
                    hold: held.hold,
                    promised: held.promised,
                });
            }
            let before = &wanted[..at];
            if hold == Hold::Share && !before.iter().any(|other| other.card == want.card) {
                let asked = sum(wanted.iter().filter(|other| other.card == want.card).map(|other| other.memory));
                if let Some(conflict) = self.too_small(&want.card, receiver, asked) {
                    return Some(conflict);
                }
            }
        }
        None
    }

    /// Whether a share of this size does not fit next to the others.
    fn too_small(&self, card: &GpuUuid, receiver: Receiver<'_>, asked: Mib) -> Option<Conflict> {
        // Init containers run one after the other and before the rest: of each pod the larger of both counts.
        let mut pods: BTreeMap<Option<(&str, &str)>, (Mib, Mib)> = BTreeMap::new();
        let mut names = Vec::new();
        for held in self.others(card, receiver).filter(|held| held.hold == Hold::Share) {
            let pod = held.by.as_ref().map(|by| (by.namespace.as_str(), by.name.as_str()));
            let (init, rest) = pods.entry(pod).or_default();
            match &held.by {
                Some(by) if by.init => *init = (*init).max(held.memory),
                _ => *rest = Mib(rest.0.saturating_add(held.memory.0)),
            }
            if let Some(by) = &held.by {
                names.push(by.clone());
            }
        }
        let taken = sum(pods.into_values().map(|(init, rest)| init.max(rest)));
        let total = self.view.memory(&DeviceUuid::Gpu(card.clone()));
        if taken.0.saturating_add(asked.0) <= total.0 {
            return None;
        }
        names.sort();
        names.dedup();
        Some(Conflict::Memory { card: card.clone(), asked, total, taken, by: names })
    }
}

fn sum(of: impl Iterator<Item = Mib>) -> Mib {
    Mib(of.fold(0, |sum, memory| sum.saturating_add(memory.0)))
}

/// Whether one excludes the other by place: two MIG devices lie side by side, a card lies under all of them.
fn meets(device: &DeviceUuid, held: &Held) -> bool {
    match (device, &held.device) {
        (DeviceUuid::Mig(mine), DeviceUuid::Mig(theirs)) => mine == theirs,
        _ => true,
    }
}

/// What a pod's record promises to containers that have not been given it.
fn promised(view: &View<'_>, pod: &NodePod) -> Vec<Held> {
    let mut promises = Vec::new();
    for entry in pod.record.iter().flat_map(|record| &record.containers) {
        let container = pod.containers.iter().find(|container| container.name == entry.name);
        let given = |hold: Hold| {
            view.entries.iter().any(|given| given.is_of(&pod.uid, &entry.name) && same_kind(given.hold, hold))
        };
        for grant in &entry.devices {
            let Some((device, card)) = view.named(grant) else { continue };
            let hold = kind(view, entry, grant, &device);
            if given(hold) {
                continue;
            }
            let by = container.map(|container| holder(pod, container)).unwrap_or_else(|| Holder {
                uid: Some(pod.uid.clone()),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                container: entry.name.clone(),
                init: false,
            });
            promises.push(Held { device, card, hold, memory: grant.memory, by: Some(by), promised: true, id: None });
        }
    }
    promises
}

fn same_kind(a: Hold, b: Hold) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// What a part of a record takes.
fn kind(view: &View<'_>, entry: &ContainerAllocation, grant: &DeviceGrant, device: &DeviceUuid) -> Hold {
    let replicas = view.offer.resources.iter().find_map(|resource| match resource.hold {
        Hold::Replica { .. } => resource.units.iter().any(|unit| unit.id.device == *device).then_some(resource.hold),
        Hold::Whole | Hold::Slice | Hold::Share => None,
    });
    match entry.kind {
        Some(GrantKind::Whole) => Hold::Whole,
        Some(GrantKind::Share) => Hold::Share,
        Some(GrantKind::Mig) => replicas.unwrap_or(Hold::Slice),
        Some(GrantKind::Seat) => replicas.unwrap_or(Hold::Replica { of: u32::MAX }),
        None => replicas.unwrap_or(match device {
            DeviceUuid::Mig(_) => Hold::Slice,
            DeviceUuid::Gpu(_) if grant.memory < view.memory(device) => Hold::Share,
            DeviceUuid::Gpu(_) => Hold::Whole,
        }),
    }
}
