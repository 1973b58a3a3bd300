//! Storage: claims and volumes, storage classes, and what CSI drivers say of nodes.

use serde::Deserialize;

use super::lenient::{Quantities, RawQuantity, list, nullable};
use super::meta::ObjectMeta;
use super::pod::{NodeSelector, ResourceRequirements};
use super::selector::LabelSelector;

/// Whose disk it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// `gcePersistentDisk`.
    Gce,
    /// `awsElasticBlockStore`.
    Aws,
    /// `azureDisk`.
    AzureDisk,
    /// `azureFile`.
    AzureFile,
    /// `cinder`.
    Cinder,
    /// `portworxVolume`.
    Portworx,
    /// `vsphereVolume`.
    Vsphere,
    /// `iscsi`.
    Iscsi,
    /// `rbd`.
    Rbd,
}

/// Pods and volumes name disks by the same fields; there is one at most.
macro_rules! first_disk {
    ($volume:expr) => {{
        use $crate::objects::DiskKind;
        let volume = $volume;
        let disks = [
            (DiskKind::Gce, &volume.gce_persistent_disk),
            (DiskKind::Aws, &volume.aws_elastic_block_store),
            (DiskKind::AzureDisk, &volume.azure_disk),
            (DiskKind::AzureFile, &volume.azure_file),
            (DiskKind::Cinder, &volume.cinder),
            (DiskKind::Portworx, &volume.portworx_volume),
            (DiskKind::Vsphere, &volume.vsphere_volume),
            (DiskKind::Iscsi, &volume.iscsi),
            (DiskKind::Rbd, &volume.rbd),
        ];
        disks.into_iter().find_map(|(kind, disk)| Some((kind, disk.as_ref()?)))
    }};
}
pub(super) use first_disk;

/// `v1` PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: PersistentVolumeClaimSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: Phase,
}

/// Its `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// How it is to be mounted.
    #[serde(deserialize_with = "list")]
    pub access_modes: Vec<String>,
    /// Its storage class.
    #[serde(deserialize_with = "nullable")]
    pub storage_class_name: String,
    /// How large it is to be.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// `Filesystem` or `Block`.
    #[serde(deserialize_with = "nullable")]
    pub volume_mode: String,
    /// Its volume attributes class.
    #[serde(deserialize_with = "nullable")]
    pub volume_attributes_class_name: String,
    /// Which volumes will do.
    pub selector: Option<LabelSelector>,
    /// Its volume.
    #[serde(deserialize_with = "nullable")]
    pub volume_name: String,
}

/// A `status` of which only the phase is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Phase {
    /// The phase.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
}

/// `v1` PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolume {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: PersistentVolumeSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: Phase,
}

/// Its `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// How large it is.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Quantities,
    /// How it may be mounted.
    #[serde(deserialize_with = "list")]
    pub access_modes: Vec<String>,
    /// Its storage class.
    #[serde(deserialize_with = "nullable")]
    pub storage_class_name: String,
    /// `Filesystem` or `Block`.
    #[serde(deserialize_with = "nullable")]
    pub volume_mode: String,
    /// Its volume attributes class.
    #[serde(deserialize_with = "nullable")]
    pub volume_attributes_class_name: String,
    /// The nodes that can reach it.
    #[serde(deserialize_with = "nullable")]
    pub node_affinity: VolumeNodeAffinity,
    /// The claim that it is bound to, or kept for.
    pub claim_ref: Option<ClaimReference>,
    /// With a CSI driver.
    pub csi: Option<CsiSource>,
    /// A disk of Google.
    pub gce_persistent_disk: Option<Disk>,
    /// A disk of Amazon.
    pub aws_elastic_block_store: Option<Disk>,
    /// A disk of Azure.
    pub azure_disk: Option<Disk>,
    /// Files of Azure.
    pub azure_file: Option<Disk>,
    /// A disk of OpenStack.
    pub cinder: Option<Disk>,
    /// A volume of Portworx.
    pub portworx_volume: Option<Disk>,
    /// A volume of vSphere.
    pub vsphere_volume: Option<Disk>,
    /// A disk by iSCSI.
    pub iscsi: Option<Disk>,
    /// An image of Ceph.
    pub rbd: Option<Disk>,
}

impl PersistentVolumeSpec {
    /// The disk that it names.
    pub fn disk(&self) -> Option<(DiskKind, &Disk)> {
        first_disk!(self)
    }
}

/// The nodes that can reach a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeAffinity {
    /// Terms of which one must match.
    pub required: Option<NodeSelector>,
}

/// A claim as a volume names it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimReference {
    /// Namespace.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// UID.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiSource {
    /// The driver.
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// Its handle.
    #[serde(deserialize_with = "nullable")]
    pub volume_handle: String,
}

/// What any of them is named by; each has only some of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Disk {
    /// Google's name.
    #[serde(deserialize_with = "nullable")]
    pub pd_name: String,
    /// Amazon's, OpenStack's or Portworx' ID.
    #[serde(deserialize_with = "nullable", rename = "volumeID")]
    pub volume_id: String,
    /// Azure's URI.
    #[serde(deserialize_with = "nullable", rename = "diskURI")]
    pub disk_uri: String,
    /// vSphere's path.
    #[serde(deserialize_with = "nullable")]
    pub volume_path: String,
    /// The iSCSI name.
    #[serde(deserialize_with = "nullable")]
    pub iqn: String,
    /// Ceph's monitors.
    #[serde(deserialize_with = "list")]
    pub monitors: Vec<String>,
    /// Ceph's pool.
    #[serde(deserialize_with = "nullable")]
    pub pool: String,
    /// Ceph's image.
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// Whether it is only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// `storage.k8s.io/v1` StorageClass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Who makes volumes.
    #[serde(deserialize_with = "nullable")]
    pub provisioner: String,
    /// When claims are bound.
    #[serde(deserialize_with = "nullable")]
    pub volume_binding_mode: String,
    /// Where volumes can be made.
    #[serde(deserialize_with = "list")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Labels with the values that will do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorTerm {
    /// All of them must hold.
    #[serde(deserialize_with = "list")]
    pub match_label_expressions: Vec<TopologySelectorLabel>,
}

/// One label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorLabel {
    /// Its key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// The values that will do.
    #[serde(deserialize_with = "list")]
    pub values: Vec<String>,
}

/// `storage.k8s.io/v1` CSINode.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNode {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: CsiNodeSpec,
}

/// Its `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeSpec {
    /// The drivers on the node.
    #[serde(deserialize_with = "list")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// A driver on a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeDriver {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// What it attaches at most.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: VolumeNodeResources,
}

/// What a driver attaches at most.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeResources {
    /// So many volumes.
    pub count: Option<i64>,
}

/// `storage.k8s.io/v1` CSIDriver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriver {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: CsiDriverSpec,
}

/// Its `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// Whether it says what it has left.
    #[serde(deserialize_with = "nullable")]
    pub storage_capacity: bool,
    /// Whether a node without it takes no pod that needs it.
    #[serde(deserialize_with = "nullable")]
    pub prevent_pod_scheduling_if_missing: bool,
}

/// `storage.k8s.io/v1` CSIStorageCapacity.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiStorageCapacity {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// The storage class.
    #[serde(deserialize_with = "nullable")]
    pub storage_class_name: String,
    /// Which nodes.
    pub node_topology: Option<LabelSelector>,
    /// What is left.
    pub capacity: Option<RawQuantity>,
    /// The largest volume.
    pub maximum_volume_size: Option<RawQuantity>,
}

/// `storage.k8s.io/v1` VolumeAttachment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachment {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: VolumeAttachmentSpec,
}

/// Its `spec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    /// The driver.
    #[serde(deserialize_with = "nullable")]
    pub attacher: String,
    /// The node.
    #[serde(deserialize_with = "nullable")]
    pub node_name: String,
    /// What is attached.
    #[serde(deserialize_with = "nullable")]
    pub source: VolumeAttachmentSource,
}

/// What is attached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSource {
    /// The volume.
    pub persistent_volume_name: Option<String>,
}
