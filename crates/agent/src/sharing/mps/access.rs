//! What a container is told of MPS.

use std::path::{Path, PathBuf};

use crate::allocate::Give;
use crate::config::Sharing;
use crate::container::MpsAccess;
use crate::handout::Stand;
use crate::resources::{Hold, Resource, ResourceName};

/// Whether containers share this resource below an MPS server.
pub fn is_shared(stand: &Stand, resource: &Resource) -> bool {
    by_mps(stand, resource.hold)
}

fn by_mps(stand: &Stand, hold: Hold) -> bool {
    match hold {
        Hold::Replica { .. } => matches!(stand.config.sharing, Sharing::Mps(_)),
        Hold::Share => stand.shares_by_mps,
        Hold::Whole | Hold::Slice => false,
    }
}

/// Folder of a resource's daemon: its pipes and logs.
pub(super) fn folder(root: &Path, resource: &ResourceName) -> PathBuf {
    root.join(resource.as_str())
}

/// What the container that gets this is told; `None` if no MPS server is between it and its devices.
///
/// Devices are numbered as CUDA numbers them in the container: in NVML's order, from 0. A share's threads are limited only
/// where its record guarantees compute, to exactly that; one without takes what is left.
pub fn access(stand: &Stand, give: &Give) -> Option<MpsAccess> {
    if !by_mps(stand, give.hold) {
        return None;
    }
    let root = &stand.config.mps_root;
    let mut access = MpsAccess {
        pipes: folder(root, &give.resource).join("pipe"),
        shm: root.join("shm"),
        memory: None,
        threads: None,
    };
    if give.hold == Hold::Share {
        let mut devices: Vec<_> = give.devices.iter().collect();
        devices.sort_by_key(|it| stand.seen.inventory.card(&it.card).map(|card| card.index));
        devices.dedup_by(|a, b| a.card == b.card);
        let limits = devices.iter().enumerate().map(|(at, it)| format!("{at}={}M", it.memory.0));
        access.memory = Some(limits.collect::<Vec<_>>().join(","));
        access.threads = devices.iter().map(|it| it.compute.0).max().filter(|&percent| percent > 0);
    }
    Some(access)
}
