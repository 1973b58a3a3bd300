//! The world's storage: it plays users, provisioners and the volume controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_scheduler_engine::model::{
    AccessMode, BindingMode, ClaimName, ClaimRef, CsiDriver, CsiNode, CsiVolume, DiskSource, InlineDisk, LabelSelector,
    NodeSelector, NodeSelectorTerm, Operator, Pod, PodVolume, Quantity, Requirement, StorageCapacity, StorageClass,
    StorageKey, StorageObject, Volume, VolumeAttachment, VolumeClaim, VolumePlan, VolumeSource,
};

use super::op::StorageOp;

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const DRIVER: &str = "disks.example.com";

/// A claim of the test namespace.
pub fn claim_name(name: &str) -> ClaimName {
    ClaimName::new("default", name)
}

/// An unbound claim of a class, for this many GiB.
pub fn claim(name: &str, class: &str, gib: i64) -> VolumeClaim {
    VolumeClaim {
        uid: format!("uid-{name}").into(),
        class: class.into(),
        requested: Some(Quantity::units(gib << 30)),
        access_modes: [AccessMode::ReadWriteOnce].into(),
        ..VolumeClaim::new(claim_name(name))
    }
}

/// The claim, bound.
pub fn bound_claim(claim: VolumeClaim, volume: &str) -> VolumeClaim {
    VolumeClaim { volume: Some(volume.into()), bind_completed: true, ..claim }
}

/// A free volume of a class.
pub fn volume(name: &str, class: &str, gib: i64) -> Volume {
    Volume {
        class: class.into(),
        capacity: Quantity::units(gib << 30),
        access_modes: [AccessMode::ReadWriteOnce, AccessMode::ReadWriteOncePod].into(),
        source: VolumeSource::Csi(CsiVolume { driver: DRIVER.into(), handle: name.into() }),
        ..Volume::new(name)
    }
}

/// The volume, for this claim.
pub fn claimed(volume: Volume, claim: &VolumeClaim) -> Volume {
    let claim = Some(ClaimRef { name: claim.name.clone(), uid: Some(claim.uid.clone()) });
    Volume { claim, available: false, ..volume }
}

/// The volume, where nodes have this label alone.
pub fn only_on(volume: Volume, key: &str, value: &str) -> Volume {
    let term = NodeSelectorTerm { expressions: vec![equals(key, value)], fields: Vec::new() };
    Volume { node_affinity: Some(NodeSelector { terms: vec![term] }), ..volume }
}

pub fn equals(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

/// A storage class.
pub fn class(name: &str, provisioner: &str, binding: BindingMode) -> StorageClass {
    StorageClass {
        name: name.into(),
        provisioner: provisioner.into(),
        binding: Some(binding),
        allowed_topologies: Vec::new(),
    }
}

/// The pod with these claims.
pub fn using(mut pod: Pod, claims: &[&str]) -> Pod {
    pod.volumes.extend(claims.iter().map(|c| PodVolume::Claim((*c).into())));
    pod
}

/// A GCE disk in a pod.
pub fn disk(name: &str, read_only: bool) -> PodVolume {
    let migrated = Some(CsiVolume { driver: DRIVER.into(), handle: format!("disk-{name}").into() });
    let source = DiskSource::GcePersistentDisk { name: name.into() };
    PodVolume::Disk(InlineDisk { source, read_only, migrated })
}

/// All objects, as the API server has them.
#[derive(Debug, Default)]
pub struct Storage {
    pub objects: BTreeMap<StorageKey, StorageObject>,
    made: u32,
}

impl Storage {
    fn claim(&self, name: &ClaimName) -> Option<VolumeClaim> {
        match self.objects.get(&StorageKey::Claim(name.clone())) {
            Some(StorageObject::Claim(claim)) => Some(claim.clone()),
            _ => None,
        }
    }
    fn volume(&self, name: &Arc<str>) -> Option<Volume> {
        match self.objects.get(&StorageKey::Volume(name.clone())) {
            Some(StorageObject::Volume(volume)) => Some(volume.clone()),
            _ => None,
        }
    }

    /// What an operation changes: objects, or keys of those that go.
    pub fn change(&mut self, op: StorageOp) -> Vec<Result<StorageObject, StorageKey>> {
        let StorageOp { kind, n, how, size } = op;
        let gib = 1 + i64::from(size % 4);
        let (name, zone) = (claim_name(&format!("c{}", n % 4)), format!("z{}", size % 2));
        let gone = how % 8 == 7;
        match kind % 10 {
            0..=2 => self.change_claim(name, how, size),
            3..=5 => self.change_volume(&format!("v{}", n % 4), how, size),
            6 => {
                let (class_name, provisioner) =
                    [("wait", DRIVER), ("none", "kubernetes.io/no-provisioner")][usize::from(n % 2)];
                let mut class = class(class_name, provisioner, BindingMode::WaitForFirstConsumer);
                if how % 3 == 1 {
                    class.allowed_topologies = vec![LabelSelector { requirements: vec![equals(ZONE, &zone)] }];
                }
                one(gone, StorageObject::Class(class))
            }
            7 => {
                let limit = (how % 3 > 0).then(|| i64::from(how % 3));
                let drivers = [(Arc::from(DRIVER), limit)].into();
                let node = CsiNode { name: format!("n{}", n % 4).into(), drivers, migrated: [].into() };
                one(gone, StorageObject::CsiNode(node))
            }
            8 if n % 2 == 0 => {
                let name = DRIVER.into();
                let driver = CsiDriver { name, storage_capacity: how % 2 == 0, needed_on_node: how % 5 == 1 };
                one(gone, StorageObject::CsiDriver(driver))
            }
            8 => {
                let topology = Some(LabelSelector { requirements: vec![equals(ZONE, &zone)] });
                one(
                    gone,
                    StorageObject::Capacity(StorageCapacity {
                        namespace: "default".into(),
                        name: zone.into(),
                        class: "wait".into(),
                        topology,
                        capacity: Some(Quantity::units(i64::from(how % 5) << 30)),
                        largest_volume: None,
                    }),
                )
            }
            _ => one(
                how % 2 == 1,
                StorageObject::Attachment(VolumeAttachment {
                    name: format!("a{}", n % 4).into(),
                    attacher: DRIVER.into(),
                    node: format!("n{}", size % 4).into(),
                    volume: Some(format!("v{gib}").into()),
                }),
            ),
        }
    }

    fn change_claim(&mut self, name: ClaimName, how: u8, size: u8) -> Vec<Result<StorageObject, StorageKey>> {
        let gib = 1 + i64::from(size % 4);
        self.made += 1;
        let fresh =
            |class: &str| VolumeClaim { uid: format!("uid-{}", self.made).into(), ..claim(&name.name, class, gib) };
        let known = self.claim(&name);
        let changed = match (how % 9, known) {
            (0 | 1, _) => fresh("wait"),
            (2, _) => fresh("none"),
            (3, _) => VolumeClaim { access_modes: [AccessMode::ReadWriteOncePod].into(), ..fresh("wait") },
            (4, known) => {
                // The volume controller binds it, if the volume is free.
                let volume: Arc<str> = format!("v{}", size % 4).into();
                let claim = known.unwrap_or_else(|| fresh("none"));
                let Some(known) = self.volume(&volume).filter(|v| v.claim.is_none()) else { return Vec::new() };
                let bound = bound_claim(claim, &volume);
                return vec![Ok(StorageObject::Volume(claimed(known, &bound))), Ok(StorageObject::Claim(bound))];
            }
            (5, Some(claim)) => VolumeClaim { selected_node: Some(format!("n{}", size % 3).into()), ..claim },
            (6, Some(claim)) => VolumeClaim { selected_node: None, ..claim },
            (7, Some(claim)) => VolumeClaim { terminating: true, ..claim },
            (8, Some(_)) => return vec![Err(StorageKey::Claim(name))],
            _ => fresh("now"),
        };
        vec![Ok(StorageObject::Claim(changed))]
    }

    fn change_volume(&mut self, name: &str, how: u8, size: u8) -> Vec<Result<StorageObject, StorageKey>> {
        let gib = 1 + i64::from(size % 4);
        let class = if size.is_multiple_of(3) { "wait" } else { "none" };
        let fresh = volume(name, class, gib);
        let known = self.volume(&fresh.name);
        let changed = match (how % 6, known) {
            (0 | 1, _) => only_on(fresh, HOSTNAME, &format!("n{}", size % 3)),
            (2, _) => fresh,
            (3, _) => {
                let mut volume = fresh;
                volume.labels.insert(ZONE.into(), format!("z{}", size % 2));
                volume
            }
            (4, Some(_)) => return vec![Err(StorageKey::Volume(fresh.name))],
            (5, Some(known)) => Volume { claim: None, available: size.is_multiple_of(2), ..known },
            _ => only_on(fresh, ZONE, &format!("z{}", size % 2)),
        };
        vec![Ok(StorageObject::Volume(changed))]
    }

    /// Carries out a plan for a node: what changes, or `None` where it cannot be any more.
    pub fn bind(&mut self, plan: &VolumePlan, node: &str) -> Option<Vec<StorageObject>> {
        let mut changes = Vec::new();
        for (name, volume) in &plan.bindings {
            let (claim, volume) = (self.claim(name)?, self.volume(volume)?);
            let free = volume.claim.as_ref().is_none_or(|c| c.means(&claim));
            if !free || claim.volume.as_ref().is_some_and(|v| *v != volume.name) {
                return None;
            }
            let bound = bound_claim(claim, &volume.name);
            changes.extend([StorageObject::Volume(claimed(volume, &bound)), StorageObject::Claim(bound)]);
        }
        for name in &plan.provisions {
            let claim = self.claim(name)?;
            if claim.volume.is_some() || claim.selected_node.as_ref().is_some_and(|n| **n != *node) {
                return None;
            }
            self.made += 1;
            let made = only_on(volume(&format!("made-{}", self.made), &claim.class, 4), HOSTNAME, node);
            let bound = VolumeClaim { selected_node: Some(node.into()), ..bound_claim(claim, &made.name) };
            changes.extend([StorageObject::Volume(claimed(made, &bound)), StorageObject::Claim(bound)]);
        }
        Some(changes)
    }

    /// What is written before it fails: the node on the first claim.
    pub fn bind_partly(&mut self, plan: &VolumePlan, node: &str) -> Option<StorageObject> {
        let claim = self.claim(plan.provisions.first()?).filter(|c| c.selected_node.is_none())?;
        Some(StorageObject::Claim(VolumeClaim { selected_node: Some(node.into()), ..claim }))
    }
}

fn one(gone: bool, object: StorageObject) -> Vec<Result<StorageObject, StorageKey>> {
    vec![if gone { Err(object.key()) } else { Ok(object) }]
}
