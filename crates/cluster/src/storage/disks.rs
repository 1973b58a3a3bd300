//! Disks by their own names: which ones pods must not share, and what they are to the CSI drivers that do the work of the
//! plugins that they belong to.

use std::sync::Arc;

use gpu_scheduler_engine::model::{
    CsiVolume, DiskSource, InlineDisk, NodeSelector, Operator, PodVolume, Requirement, VolumeSource, counts_as_csi,
    csi_driver_of,
};

use crate::objects::{self, Disk, DiskKind, ObjectMeta};

const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Stands between zones in a label.
const BETWEEN_ZONES: &str = "__";

/// The plugin whose disk it is; `None` where no CSI driver does its work.
fn plugin(kind: DiskKind) -> Option<&'static str> {
    Some(match kind {
        DiskKind::Gce => "kubernetes.io/gce-pd",
        DiskKind::Aws => "kubernetes.io/aws-ebs",
        DiskKind::AzureDisk => "kubernetes.io/azure-disk",
        DiskKind::AzureFile => "kubernetes.io/azure-file",
        DiskKind::Cinder => "kubernetes.io/cinder",
        DiskKind::Portworx => "kubernetes.io/portworx-volume",
        DiskKind::Vsphere => "kubernetes.io/vsphere-volume",
        DiskKind::Iscsi | DiskKind::Rbd => return None,
    })
}

/// The node label by which the CSI driver names zones, where it does.
fn zone_key(kind: DiskKind) -> Option<&'static str> {
    match kind {
        DiskKind::Gce => Some("topology.gke.io/zone"),
        DiskKind::Aws => Some("topology.ebs.csi.aws.com/zone"),
        DiskKind::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
        _ => None,
    }
}

/// What a disk is to its CSI driver, in these zones.
fn migrated(kind: DiskKind, disk: &Disk, zones: &[&str]) -> Option<CsiVolume> {
    let handle = match kind {
        DiskKind::Gce => gce_handle(&disk.pd_name, zones)?,
        DiskKind::Aws => aws_handle(&disk.volume_id)?,
        DiskKind::AzureDisk => disk.disk_uri.clone(),
        DiskKind::Cinder | DiskKind::Portworx => disk.volume_id.clone(),
        DiskKind::Vsphere => disk.volume_path.clone(),
        // Files of Azure never count.
        DiskKind::AzureFile | DiskKind::Iscsi | DiskKind::Rbd => return None,
    };
    Some(CsiVolume { driver: csi_driver_of(plugin(kind)?)?.into(), handle: handle.into() })
}

fn gce_handle(name: &str, zones: &[&str]) -> Option<String> {
    Some(match zones {
        [] | [""] => format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}"),
        [zone] => format!("projects/UNSPECIFIED/zones/{zone}/disks/{name}"),
        [first, ..] => {
            let region = |zone: &str| zone.rsplit_once('-').map(|(region, _)| region.to_owned());
            let first = region(first)?;
            if !zones.iter().all(|zone| region(zone).as_deref() == Some(&first)) {
                return None;
            }
            format!("projects/UNSPECIFIED/regions/{first}/disks/{name}")
        }
    })
}

/// Written as an ID, or as `aws://zone/ID`.
fn aws_handle(id: &str) -> Option<String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let id = rest.split_once('/').map(|(_, path)| path.trim_matches('/'))?;
    (id.starts_with("vol-") && !id.contains('/')).then(|| id.to_owned())
}

/// Where a volume's contents are. `affinity` is its own.
pub(super) fn source(volume: &objects::PersistentVolume, affinity: Option<&NodeSelector>) -> VolumeSource {
    if let Some(csi) = &volume.spec.csi {
        let (driver, handle) = (csi.driver.as_str().into(), csi.volume_handle.as_str().into());
        return VolumeSource::Csi(CsiVolume { driver, handle });
    }
    let Some((kind, disk)) = volume.spec.disk() else { return VolumeSource::Other };
    let Some(plugin) = plugin(kind) else { return VolumeSource::Other };
    let labels = &volume.metadata.labels;
    let zones = labels.get(BETA_ZONE).filter(|z| !z.is_empty()).or_else(|| labels.get(ZONE));
    let zones: Vec<&str> = zones.map(|z| z.split(BETWEEN_ZONES).collect()).unwrap_or_default();
    let node_affinity = match zone_key(kind) {
        Some(key) => by_driver(&volume.metadata, affinity, key),
        None => affinity.cloned(),
    };
    VolumeSource::InTree { plugin: plugin.into(), migrated: migrated(kind, disk, &zones), node_affinity }
}

/// A volume's node affinity with its zones under the driver's own label.
fn by_driver(metadata: &ObjectMeta, affinity: Option<&NodeSelector>, key: &str) -> Option<NodeSelector> {
    let mut selector = affinity.cloned().unwrap_or_default();
    let names =
        |selector: &NodeSelector, key: &str| selector.terms.iter().flat_map(|t| &t.expressions).any(|r| r.key == key);
    let beta = !names(&selector, ZONE)
        && (names(&selector, BETA_ZONE)
            || (!metadata.labels.contains_key(ZONE) && metadata.labels.contains_key(BETA_ZONE)));
    let (zone, region) = if beta { (BETA_ZONE, BETA_REGION) } else { (ZONE, REGION) };
    let has_values = selector.terms.iter().flat_map(|t| &t.expressions).any(|r| r.key == zone && !r.values.is_empty());
    let rename = |selector: &mut NodeSelector, old: &str, new: &str| {
        let all = selector.terms.iter_mut().flat_map(|t| &mut t.expressions);
        all.filter(|r| r.key == old).for_each(|r| r.key = new.to_owned());
    };
    if has_values {
        rename(&mut selector, zone, key);
    } else if let Some(label) = metadata.labels.get(zone) {
        let mut values: Vec<String> =
            label.split(BETWEEN_ZONES).map(|z| z.trim().to_owned()).filter(|z| !z.is_empty()).collect();
        values.sort();
        values.dedup();
        if !values.is_empty() {
            if selector.terms.is_empty() {
                selector.terms.push(Default::default());
            }
            for term in &mut selector.terms {
                let values = values.clone();
                term.expressions.push(Requirement { key: key.to_owned(), operator: Operator::In, values });
            }
        }
    }
    if beta {
        rename(&mut selector, region, REGION);
    }
    (affinity.is_some() || !selector.terms.is_empty()).then_some(selector)
}

/// The volumes of a pod that matter to scheduling.
pub(crate) fn pod_volumes(pod: &str, volumes: &[objects::Volume]) -> Vec<PodVolume> {
    volumes.iter().filter_map(|volume| pod_volume(pod, volume)).collect()
}

fn pod_volume(pod: &str, volume: &objects::Volume) -> Option<PodVolume> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(PodVolume::Claim(claim.claim_name.as_str().into()));
    }
    if volume.ephemeral.is_some() {
        return Some(PodVolume::Ephemeral(format!("{pod}-{}", volume.name).into()));
    }
    let (kind, disk) = volume.disk()?;
    let text = |text: &str| Arc::<str>::from(text);
    let source = match kind {
        DiskKind::Gce => DiskSource::GcePersistentDisk { name: text(&disk.pd_name) },
        DiskKind::Aws => DiskSource::AwsElasticBlockStore { id: text(&disk.volume_id) },
        DiskKind::Iscsi => DiskSource::Iscsi { iqn: text(&disk.iqn) },
        DiskKind::Rbd => DiskSource::Rbd {
            monitors: disk.monitors.iter().map(|m| text(m)).collect(),
            // What the API server puts where nobody says.
            pool: text(if disk.pool.is_empty() { "rbd" } else { &disk.pool }),
            image: text(&disk.image),
        },
        _ => DiskSource::Shared,
    };
    let counts = plugin(kind).is_some_and(counts_as_csi);
    let migrated = if counts { migrated(kind, disk, &[]) } else { None };
    let matters = migrated.is_some() || source != DiskSource::Shared;
    matters.then_some(PodVolume::Disk(InlineDisk { source, read_only: disk.read_only, migrated }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles() {
        for (zones, expected) in [
            (&[][..], Some("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d")),
            (&["us-a1-b"], Some("projects/UNSPECIFIED/zones/us-a1-b/disks/d")),
            (&["us-a1-b", "us-a1-c"], Some("projects/UNSPECIFIED/regions/us-a1/disks/d")),
            (&["us-a1-b", "us-a2-c"], None),
        ] {
            assert_eq!(gce_handle("d", zones).as_deref(), expected, "{zones:?}");
        }
        for (id, expected) in [
            ("vol-1", Some("vol-1")),
            ("aws://eu-1a/vol-1", Some("vol-1")),
            ("aws:///vol-1", Some("vol-1")),
            ("aws://eu-1a/snap-1", None),
        ] {
            assert_eq!(aws_handle(id).as_deref(), expected, "{id}");
        }
    }
}
