//! The volumes of a pod, as far as nodes have to do something for them.

use std::sync::Arc;

use crate::model::{ClaimName, InlineDisk, Pod, PodUid, PodVolume};

/// A claim that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PodClaim {
    /// Its name.
    pub name: ClaimName,
    /// For a generic ephemeral volume: UID and name of the pod that the claim has to belong to.
    pub made_for: Option<(PodUid, Arc<str>)>,
}

/// All of them. Part of a class's identity: pods that use other claims are another question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PodVolumes {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// Claims, each once, in the pod's order.
    pub claims: Box<[PodClaim]>,
    /// Disks that the pod names itself, in its order.
    pub disks: Box<[InlineDisk]>,
}

impl PodVolumes {
    /// `None` where the pod has none.
    pub(in crate::state) fn of(pod: &Pod) -> Option<Self> {
        let (mut claims, mut disks): (Vec<PodClaim>, _) = (Vec::new(), Vec::new());
        for volume in &pod.volumes {
            let (name, made_for) = match volume {
                PodVolume::Claim(name) => (name, None),
                PodVolume::Ephemeral(name) => (name, Some((pod.uid.clone(), pod.name.clone()))),
                PodVolume::Disk(disk) => {
                    disks.push(disk.clone());
                    continue;
                }
            };
            let claim = PodClaim { name: ClaimName::new(pod.namespace.clone(), name.clone()), made_for };
            if !claims.contains(&claim) {
                claims.push(claim);
            }
        }
        let any = !(claims.is_empty() && disks.is_empty());
        any.then(|| Self { namespace: pod.namespace.clone(), claims: claims.into(), disks: disks.into() })
    }

    /// Whether it uses a claim.
    pub fn uses(&self, claim: &ClaimName) -> bool {
        self.claims.iter().any(|c| c.name == *claim)
    }

    /// Whether both use the same claim, or the same disk.
    pub fn shares(&self, other: &Self) -> bool {
        let same_disk = |ours: &InlineDisk| other.disks.iter().any(|d| d.source == ours.source);
        let same_csi =
            |ours: &InlineDisk| ours.migrated.is_some() && other.disks.iter().any(|d| d.migrated == ours.migrated);
        self.claims.iter().any(|c| other.uses(&c.name))
            || self.disks.iter().any(|d| (d.is_exclusive() && same_disk(d)) || same_csi(d))
    }
}
