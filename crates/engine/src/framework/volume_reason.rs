//! Why not, where volumes are the reason: as kube-scheduler words it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::model::ClaimName;

/// A reason that lies in volumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeReason {
    /// A pod on the node has a disk that this one names too.
    DiskConflict,
    /// A claim that only one pod may use is in use.
    InUse,
    /// The node attaches no more volumes of a driver.
    TooMany,
    /// The node lacks a CSI driver.
    DriverMissing(Arc<str>),
    /// A claim's volume cannot be reached from the node.
    NodeAffinity,
    /// A claim can get no volume there.
    NoneToBind,
    /// What makes volumes has too little left for the node.
    NotEnoughSpace,
    /// A claim's volume does not exist.
    NoSuchVolume,
    /// A claim's volume is in another zone.
    Zone,
    /// A claim does not exist.
    ClaimNotFound(Arc<str>),
    /// A claim does not exist, found out late.
    ClaimNotFoundOnNode(ClaimName),
    /// A claim for an ephemeral volume does not exist yet.
    EphemeralNotMade(Arc<str>),
    /// A claim's volume was lost.
    Lost {
        /// The claim.
        claim: Arc<str>,
        /// Its volume.
        volume: Arc<str>,
    },
    /// A claim is being deleted.
    Terminating(Arc<str>),
    /// A claim has the name of an ephemeral volume's and is another pod's.
    NotForPod {
        /// The claim.
        claim: ClaimName,
        /// The pod's name.
        pod: Arc<str>,
    },
    /// A claim that is bound without the scheduler is not bound yet.
    UnboundImmediate,
    /// A claim has neither volume nor class.
    NoClass,
    /// A storage class does not exist.
    ClassNotFound(Arc<str>),
    /// A storage class does not say when its claims are bound.
    ModeUnset(Arc<str>),
    /// A claim has no volume, and is not bound by the scheduler.
    NoVolumeName,
    /// A volume does not exist.
    VolumeNotFound(Arc<str>),
}

impl VolumeReason {
    /// kube-scheduler's words.
    pub fn text(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::DiskConflict => "node(s) had no available disk",
            Self::InUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::TooMany => "node(s) exceed max volume count",
            Self::NodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoneToBind => "node(s) didn't find available persistent volumes to bind",
            Self::NotEnoughSpace => "node(s) did not have enough free storage",
            Self::NoSuchVolume => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::Zone => "node(s) had no available volume zone",
            Self::UnboundImmediate => "pod has unbound immediate PersistentVolumeClaims",
            Self::NoClass => "PersistentVolumeClaim had no pv name and storageClass name",
            Self::NoVolumeName => "PersistentVolume had no name",
            named => return Cow::Owned(named.text_with_name()),
        })
    }

    fn text_with_name(&self) -> String {
        match self {
            Self::DriverMissing(driver) => format!("{driver} CSI driver is not installed on the node"),
            Self::ClaimNotFound(name) => format!("persistentvolumeclaim {name:?} not found"),
            Self::ClaimNotFoundOnNode(claim) => {
                format!("looking up PVC {claim}: persistentvolumeclaim {:?} not found", claim.name)
            }
            Self::EphemeralNotMade(name) => {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
            }
            Self::Lost { claim, volume } => {
                format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}")
            }
            Self::Terminating(name) => format!("persistentvolumeclaim {name:?} is being deleted"),
            Self::NotForPod { claim, pod } => {
                let namespace = &claim.namespace;
                format!("PVC {claim} was not created for pod {namespace}/{pod} (pod is not owner)")
            }
            Self::ClassNotFound(name) => format!("storageclass.storage.k8s.io {name:?} not found"),
            Self::ModeUnset(name) => format!("VolumeBindingMode not set for StorageClass {name:?}"),
            Self::VolumeNotFound(name) => format!("persistentvolume {name:?} not found"),
            // The others say it without a name.
            _ => String::new(),
        }
    }
}
