//! Objects that storage is known by, as facts for the engine.

mod disks;

use std::collections::BTreeSet;
use std::sync::Arc;

use gpu_scheduler_engine::model::{
    AccessMode, BindingMode, ClaimName, ClaimRef, CsiDriver, CsiNode, LabelSelector, Operator, PodUid, Quantity,
    Requirement, StorageCapacity, StorageClass, StorageObject, Volume, VolumeAttachment, VolumeClaim,
};

use crate::objects::{self, ObjectMeta, RawQuantity};
use crate::pod::{DEFAULT_NAMESPACE, node_selector};
use crate::problem::Finding;
use crate::quantity;
use crate::selector::optional_selector;

pub(crate) use disks::pod_volumes;

/// Storage class of a claim or volume, where it goes before the field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim: the node that its volume is to be made for.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a volume that was not kept for its claim by a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a CSINode: plugins that a CSI driver does the work of.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// What nothing has room for: an amount that cannot be read must not pass for none.
const TOO_MUCH: Quantity = Quantity::units(i64::MAX);

/// A claim.
pub(crate) fn read_claim(claim: objects::PersistentVolumeClaim, findings: &mut Vec<Finding>) -> StorageObject {
    let objects::PersistentVolumeClaim { metadata, spec, status } = claim;
    let requested = spec.resources.requests.get("storage");
    let requested = requested.map(|raw| amount(raw, "spec.resources.requests.storage", TOO_MUCH, findings));
    let owner = metadata.owner_references.iter().find(|owner| owner.controller);
    StorageObject::Claim(VolumeClaim {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        class: class_of(&metadata, &spec.storage_class_name),
        requested,
        access_modes: access_modes(&spec.access_modes, findings),
        block: spec.volume_mode == "Block",
        attributes_class: spec.volume_attributes_class_name.into(),
        selector: optional_selector(spec.selector.as_ref(), "spec.selector", findings),
        volume: (!spec.volume_name.is_empty()).then(|| spec.volume_name.into()),
        bind_completed: metadata.annotations.contains_key(BIND_COMPLETED),
        selected_node: metadata.annotations.get(SELECTED_NODE).map(|node| node.as_str().into()),
        lost: status.phase == "Lost",
        terminating: metadata.deletion_timestamp.is_some(),
        owner: owner.map(|owner| PodUid::from(owner.uid.as_str())),
        name: claim_name(&metadata),
    })
}

/// Namespace and name of a claim.
pub(crate) fn claim_name(metadata: &ObjectMeta) -> ClaimName {
    let namespace = metadata.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(DEFAULT_NAMESPACE);
    ClaimName::new(namespace, metadata.name.as_str())
}

/// A volume.
pub(crate) fn read_volume(volume: objects::PersistentVolume, findings: &mut Vec<Finding>) -> StorageObject {
    let capacity = volume.spec.capacity.get("storage");
    let capacity = capacity.map(|raw| amount(raw, "spec.capacity.storage", Quantity::ZERO, findings));
    let affinity = volume.spec.node_affinity.required.as_ref();
    let affinity = affinity.map(|s| node_selector(s, "spec.nodeAffinity.required.nodeSelectorTerms", findings));
    let source = disks::source(&volume, affinity.as_ref());
    let objects::PersistentVolume { metadata, spec, status } = volume;
    let claim = spec.claim_ref.map(|claim| ClaimRef {
        name: ClaimName::new(claim.namespace, claim.name),
        uid: (!claim.uid.is_empty()).then(|| claim.uid.into()),
    });
    StorageObject::Volume(Volume {
        class: class_of(&metadata, &spec.storage_class_name),
        name: metadata.name.into(),
        capacity: capacity.unwrap_or_default(),
        access_modes: access_modes(&spec.access_modes, findings),
        block: spec.volume_mode == "Block",
        attributes_class: spec.volume_attributes_class_name.into(),
        labels: metadata.labels,
        node_affinity: affinity,
        claim,
        available: status.phase == "Available",
        terminating: metadata.deletion_timestamp.is_some(),
        source,
    })
}

/// A storage class.
pub(crate) fn read_class(class: objects::StorageClass, findings: &mut Vec<Finding>) -> StorageObject {
    let binding = match class.volume_binding_mode.as_str() {
        "Immediate" => Some(BindingMode::Immediate),
        "WaitForFirstConsumer" => Some(BindingMode::WaitForFirstConsumer),
        "" => None,
        unknown => {
            findings.push(Finding::new(
                "volumeBindingMode",
                format!("{unknown:?} is not a mode, and the class counts as one without"),
                "write Immediate or WaitForFirstConsumer",
            ));
            None
        }
    };
    let requirement = |label: &objects::TopologySelectorLabel| Requirement {
        key: label.key.clone(),
        operator: Operator::In,
        values: label.values.clone(),
    };
    let term = |term: &objects::TopologySelectorTerm| LabelSelector {
        requirements: term.match_label_expressions.iter().map(requirement).collect(),
    };
    StorageObject::Class(StorageClass {
        allowed_topologies: class.allowed_topologies.iter().map(term).collect(),
        name: class.metadata.name.into(),
        provisioner: class.provisioner.into(),
        binding,
    })
}

/// The CSI drivers on a node.
pub(crate) fn read_csi_node(node: objects::CsiNode, _findings: &mut Vec<Finding>) -> StorageObject {
    let migrated = node.metadata.annotations.get(MIGRATED).map(String::as_str).unwrap_or_default();
    let drivers = node.spec.drivers.into_iter();
    StorageObject::CsiNode(CsiNode {
        migrated: migrated.split(',').filter(|plugin| !plugin.is_empty()).map(Arc::from).collect(),
        name: node.metadata.name.into(),
        drivers: drivers.map(|driver| (driver.name.into(), driver.allocatable.count)).collect(),
    })
}

/// A CSI driver.
pub(crate) fn read_csi_driver(driver: objects::CsiDriver, _findings: &mut Vec<Finding>) -> StorageObject {
    StorageObject::CsiDriver(CsiDriver {
        name: driver.metadata.name.into(),
        storage_capacity: driver.spec.storage_capacity,
        needed_on_node: driver.spec.prevent_pod_scheduling_if_missing,
    })
}

/// What a CSI driver has left.
pub(crate) fn read_capacity(capacity: objects::CsiStorageCapacity, findings: &mut Vec<Finding>) -> StorageObject {
    let left = |raw: Option<&RawQuantity>, field: &str, findings: &mut Vec<Finding>| {
        raw.map(|raw| amount(raw, field, Quantity::ZERO, findings))
    };
    StorageObject::Capacity(StorageCapacity {
        namespace: claim_name(&capacity.metadata).namespace,
        capacity: left(capacity.capacity.as_ref(), "capacity", findings),
        largest_volume: left(capacity.maximum_volume_size.as_ref(), "maximumVolumeSize", findings),
        topology: optional_selector(capacity.node_topology.as_ref(), "nodeTopology", findings),
        class: capacity.storage_class_name.into(),
        name: capacity.metadata.name.into(),
    })
}

/// What is attached to a node.
pub(crate) fn read_attachment(attachment: objects::VolumeAttachment, _findings: &mut Vec<Finding>) -> StorageObject {
    StorageObject::Attachment(VolumeAttachment {
        name: attachment.metadata.name.into(),
        attacher: attachment.spec.attacher.into(),
        node: attachment.spec.node_name.into(),
        volume: attachment.spec.source.persistent_volume_name.map(Into::into),
    })
}

fn class_of(metadata: &ObjectMeta, field: &str) -> Arc<str> {
    metadata.annotations.get(BETA_CLASS).map_or(field, String::as_str).into()
}

fn amount(raw: &RawQuantity, field: &str, otherwise: Quantity, findings: &mut Vec<Finding>) -> Quantity {
    quantity::read(raw).unwrap_or_else(|why| {
        let advice = "write an amount of zero or more, such as 10Gi";
        findings.push(Finding::new(field, format!("{why}, and nothing is bound by it"), advice));
        otherwise
    })
}

fn access_modes(modes: &[String], findings: &mut Vec<Finding>) -> BTreeSet<AccessMode> {
    let mut read = BTreeSet::new();
    for (index, mode) in modes.iter().enumerate() {
        read.insert(match mode.as_str() {
            "ReadWriteOnce" => AccessMode::ReadWriteOnce,
            "ReadOnlyMany" => AccessMode::ReadOnlyMany,
            "ReadWriteMany" => AccessMode::ReadWriteMany,
            "ReadWriteOncePod" => AccessMode::ReadWriteOncePod,
            unknown => {
                findings.push(Finding::new(
                    format!("spec.accessModes[{index}]"),
                    format!("{unknown:?} is not an access mode, and was left out"),
                    "write ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod",
                ));
                continue;
            }
        });
    }
    read
}
