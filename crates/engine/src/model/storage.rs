//! Storage, as the cluster says it: claims and volumes, storage classes, and what CSI drivers say of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{LabelSelector, NodeSelector, PodUid, Quantity};

/// Namespace and name of a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name within it.
    pub name: Arc<str>,
}

impl ClaimName {
    /// The claim called `name` in `namespace`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How a volume may be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AccessMode {
    /// For writing, on one node.
    ReadWriteOnce,
    /// For reading, on many.
    ReadOnlyMany,
    /// For writing, on many.
    ReadWriteMany,
    /// For writing, by one pod.
    ReadWriteOncePod,
}

/// A `v1` PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeClaim {
    /// Its name.
    pub name: ClaimName,
    /// Its UID; empty where nobody said.
    pub uid: Arc<str>,
    /// Its storage class, by the beta annotation or `storageClassName`; empty for none.
    pub class: Arc<str>,
    /// `resources.requests.storage`.
    pub requested: Option<Quantity>,
    /// `accessModes`.
    pub access_modes: BTreeSet<AccessMode>,
    /// Whether `volumeMode` is `Block`.
    pub block: bool,
    /// `volumeAttributesClassName`; empty for none.
    pub attributes_class: Arc<str>,
    /// Which volumes will do, by label.
    pub selector: Option<LabelSelector>,
    /// `volumeName`, if it is not empty.
    pub volume: Option<Arc<str>>,
    /// Whether the annotation `pv.kubernetes.io/bind-completed` is there.
    pub bind_completed: bool,
    /// The annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<Arc<str>>,
    /// Whether its phase is `Lost`.
    pub lost: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The UID of the object that controls it: the pod, for a generic ephemeral volume.
    pub owner: Option<PodUid>,
}

impl VolumeClaim {
    /// An unbound claim that asks for nothing in particular.
    pub fn new(name: ClaimName) -> Self {
        Self {
            name,
            uid: "".into(),
            class: "".into(),
            requested: None,
            access_modes: BTreeSet::new(),
            block: false,
            attributes_class: "".into(),
            selector: None,
            volume: None,
            bind_completed: false,
            selected_node: None,
            lost: false,
            terminating: false,
            owner: None,
        }
    }

    /// Whether its binding is complete.
    pub fn is_bound(&self) -> bool {
        self.volume.is_some() && self.bind_completed
    }
}

/// The claim that a volume is bound to, or kept for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRef {
    /// Its name.
    pub name: ClaimName,
    /// Its UID; `None` where a user keeps the volume for a claim by name.
    pub uid: Option<Arc<str>>,
}

impl ClaimRef {
    /// Whether it means this claim.
    pub fn means(&self, claim: &VolumeClaim) -> bool {
        self.name == claim.name && self.uid.as_ref().is_none_or(|uid| *uid == claim.uid)
    }
}

/// A volume as a CSI driver knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CsiVolume {
    /// The driver.
    pub driver: Arc<str>,
    /// Its handle for the volume.
    pub handle: Arc<str>,
}

/// Where a volume's contents are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum VolumeSource {
    /// With a CSI driver.
    Csi(CsiVolume),
    /// With a plugin that used to be part of Kubernetes, and that a CSI driver does the work of.
    InTree {
        /// The plugin, such as `kubernetes.io/aws-ebs`.
        plugin: Arc<str>,
        /// What it is to the CSI driver; `None` where that cannot be said.
        migrated: Option<CsiVolume>,
        /// The volume's node affinity in the CSI driver's terms.
        node_affinity: Option<NodeSelector>,
    },
    /// Anything else.
    #[default]
    Other,
}

/// A `v1` PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its name.
    pub name: Arc<str>,
    /// Its storage class, by the beta annotation or `storageClassName`; empty for none.
    pub class: Arc<str>,
    /// `capacity.storage`.
    pub capacity: Quantity,
    /// `accessModes`.
    pub access_modes: BTreeSet<AccessMode>,
    /// Whether `volumeMode` is `Block`.
    pub block: bool,
    /// `volumeAttributesClassName`; empty for none.
    pub attributes_class: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The nodes that can reach it.
    pub node_affinity: Option<NodeSelector>,
    /// `claimRef`.
    pub claim: Option<ClaimRef>,
    /// Whether its phase is `Available`.
    pub available: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Where its contents are.
    pub source: VolumeSource,
}

impl Volume {
    /// An available volume that every node can reach.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            class: "".into(),
            capacity: Quantity::ZERO,
            access_modes: BTreeSet::new(),
            block: false,
            attributes_class: "".into(),
            labels: BTreeMap::new(),
            node_affinity: None,
            claim: None,
            available: true,
            terminating: false,
            source: VolumeSource::Other,
        }
    }
}

/// When a claim is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BindingMode {
    /// As soon as it is there.
    Immediate,
    /// When a pod that uses it has a node.
    WaitForFirstConsumer,
}

/// A `storage.k8s.io/v1` StorageClass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    /// Its name.
    pub name: Arc<str>,
    /// Who makes volumes; empty or `kubernetes.io/no-provisioner` for nobody.
    pub provisioner: Arc<str>,
    /// `volumeBindingMode`.
    pub binding: Option<BindingMode>,
    /// `allowedTopologies`: one of them must match the node, unless there is none. One without requirements matches
    /// nothing.
    pub allowed_topologies: Vec<LabelSelector>,
}

/// A `storage.k8s.io/v1` CSINode: the drivers on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNode {
    /// The node's name.
    pub name: Arc<str>,
    /// Drivers by name, each with how many volumes it attaches at most (`allocatable.count`).
    pub drivers: BTreeMap<Arc<str>, Option<i64>>,
    /// In-tree plugins that a CSI driver does the work of here (annotation
    /// `storage.alpha.kubernetes.io/migrated-plugins`).
    pub migrated: BTreeSet<Arc<str>>,
}

/// A `storage.k8s.io/v1` CSIDriver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiDriver {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it says how much it has left (`storageCapacity`).
    pub storage_capacity: bool,
    /// Whether a node without it takes no pod that needs it (`preventPodSchedulingIfMissing`).
    pub needed_on_node: bool,
}

/// A `storage.k8s.io/v1` CSIStorageCapacity: what a driver has left for a class, for some nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageCapacity {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The storage class.
    pub class: Arc<str>,
    /// Which nodes; `None` for none.
    pub topology: Option<LabelSelector>,
    /// `capacity`.
    pub capacity: Option<Quantity>,
    /// `maximumVolumeSize`.
    pub largest_volume: Option<Quantity>,
}

impl StorageCapacity {
    /// The largest volume that can be had; `None` where nobody says.
    pub fn limit(&self) -> Option<Quantity> {
        self.largest_volume.or(self.capacity)
    }
}

/// A `storage.k8s.io/v1` VolumeAttachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    /// Its name.
    pub name: Arc<str>,
    /// The driver.
    pub attacher: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The volume; `None` for one that no PersistentVolume stands for.
    pub volume: Option<Arc<str>>,
}

/// An object that storage is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageObject {
    /// A PersistentVolumeClaim.
    Claim(VolumeClaim),
    /// A PersistentVolume.
    Volume(Volume),
    /// A StorageClass.
    Class(StorageClass),
    /// A CSINode.
    CsiNode(CsiNode),
    /// A CSIDriver.
    CsiDriver(CsiDriver),
    /// A CSIStorageCapacity.
    Capacity(StorageCapacity),
    /// A VolumeAttachment.
    Attachment(VolumeAttachment),
}

impl StorageObject {
    /// Which object it is.
    pub fn key(&self) -> StorageKey {
        match self {
            Self::Claim(claim) => StorageKey::Claim(claim.name.clone()),
            Self::Volume(volume) => StorageKey::Volume(volume.name.clone()),
            Self::Class(class) => StorageKey::Class(class.name.clone()),
            Self::CsiNode(node) => StorageKey::CsiNode(node.name.clone()),
            Self::CsiDriver(driver) => StorageKey::CsiDriver(driver.name.clone()),
            Self::Capacity(capacity) => {
                StorageKey::Capacity { namespace: capacity.namespace.clone(), name: capacity.name.clone() }
            }
            Self::Attachment(attachment) => StorageKey::Attachment(attachment.name.clone()),
        }
    }
}

/// The identity of such an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StorageKey {
    /// A PersistentVolumeClaim.
    Claim(ClaimName),
    /// A PersistentVolume.
    Volume(Arc<str>),
    /// A StorageClass.
    Class(Arc<str>),
    /// A CSINode.
    CsiNode(Arc<str>),
    /// A CSIDriver.
    CsiDriver(Arc<str>),
    /// A CSIStorageCapacity.
    Capacity {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A VolumeAttachment.
    Attachment(Arc<str>),
}

/// What becomes of a pod's unbound claims on the node that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct VolumePlan {
    /// Claims, each with the volume that it is to be bound to.
    pub bindings: Vec<(ClaimName, Arc<str>)>,
    /// Claims that a volume is to be made for, on that node.
    pub provisions: Vec<ClaimName>,
}

impl VolumePlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

/// The CSI driver that does the work of an in-tree plugin.
pub fn csi_driver_of(plugin: &str) -> Option<&'static str> {
    Some(match plugin {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        _ => return None,
    })
}

/// Whether the volumes of an in-tree plugin count as its CSI driver's.
pub fn counts_as_csi(plugin: &str) -> bool {
    matches!(
        plugin,
        "kubernetes.io/aws-ebs"
            | "kubernetes.io/azure-disk"
            | "kubernetes.io/cinder"
            | "kubernetes.io/gce-pd"
            | "kubernetes.io/portworx-volume"
    )
}

/// A volume of a pod that a node has to do something for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodVolume {
    /// A claim by name.
    Claim(Arc<str>),
    /// A generic ephemeral volume: the claim of this name, once it is made for the pod.
    Ephemeral(Arc<str>),
    /// A disk by its own name.
    Disk(InlineDisk),
}

/// A disk that a pod names itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InlineDisk {
    /// Which.
    pub source: DiskSource,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// What it is to the CSI driver that does the work of its plugin, where its volumes count as that driver's.
    pub migrated: Option<CsiVolume>,
}

/// Which disk, as far as pods must not share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DiskSource {
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        name: Arc<str>,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        id: Arc<str>,
    },
    /// `iscsi`.
    Iscsi {
        /// `iqn`.
        iqn: Arc<str>,
    },
    /// `rbd`.
    Rbd {
        /// `monitors`.
        monitors: BTreeSet<Arc<str>>,
        /// `pool`.
        pool: Arc<str>,
        /// `image`.
        image: Arc<str>,
    },
    /// Pods may share it.
    Shared,
}

impl InlineDisk {
    /// Whether pods may be forbidden to share it.
    pub fn is_exclusive(&self) -> bool {
        self.source != DiskSource::Shared
    }

    /// Whether two pods cannot have these both on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        use DiskSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
        let both_read = self.read_only && other.read_only;
        match (&self.source, &other.source) {
            (GcePersistentDisk { name: ours }, GcePersistentDisk { name: theirs }) => ours == theirs && !both_read,
            (AwsElasticBlockStore { id: ours }, AwsElasticBlockStore { id: theirs }) => ours == theirs,
            (Iscsi { iqn: ours }, Iscsi { iqn: theirs }) => ours == theirs && !both_read,
            (Rbd { monitors, pool, image }, Rbd { monitors: theirs, pool: their_pool, image: their_image }) => {
                !monitors.is_disjoint(theirs) && pool == their_pool && image == their_image && !both_read
            }
            _ => false,
        }
    }
}
