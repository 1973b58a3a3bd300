//! Cards, nodes and pods for tests.

use gpu_scheduler_engine::model::{
    Allocation, ContainerAllocation, DeviceGrant, GrantKind, Mib, Percent, PodUid, Timestamp,
};

use crate::inventory::{
    Card, CardIndex, ComputeCapability, GpuUuid, Inventory, Mig, MigDevice, MigProfile, MigUuid, Minor, PciBusId,
    Placement,
};
use crate::pods::{NodePod, PodContainer};

/// Card `n`: `GPU-<n>`, 80 GiB, of capability 8.0, no MIG, no links; cards from 4 on are on NUMA node 1.
pub fn card(n: u32) -> Card {
    Card {
        index: CardIndex(n),
        uuid: GpuUuid::from(format!("GPU-{n}").as_str()),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        minor: Minor(n),
        pci: PciBusId::from(format!("00000000:{n:02x}:00.0").as_str()),
        numa_node: Some(n / 4),
        memory: Mib(81_920),
        capability: ComputeCapability { major: 8, minor: 0 },
        links: Vec::new(),
        mig: Mig::Disabled,
    }
}

/// The MIG device `MIG-card-instance-compute`, a `1g.10gb`.
pub fn mig_device(card: u32, gpu_instance: u32, compute_instance: u32) -> MigDevice {
    MigDevice {
        index: gpu_instance,
        uuid: MigUuid::from(format!("MIG-{card}-{gpu_instance}-{compute_instance}").as_str()),
        profile: MigProfile("1g.10gb".into()),
        gpu_instance,
        compute_instance,
        placement: Placement { start: gpu_instance, size: 1 },
        memory: Mib(9_728),
        multiprocessors: 14,
        slices: (1, 1),
        engines: [1, 0, 0, 0, 0],
    }
}

/// Card `n`, partitioned into these profiles: `MIG-<n>-<i>`.
pub fn partitioned(n: u32, profiles: &[&str]) -> Card {
    let device = |(i, profile): (u32, &&str)| {
        let part = profile.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("c.");
        MigDevice {
            index: i,
            uuid: MigUuid::from(format!("MIG-{n}-{i}").as_str()),
            profile: MigProfile((*profile).into()),
            placement: Placement { start: i, size: 1 },
            slices: if part { (2, 1) } else { (1, 1) },
            ..mig_device(n, i + 1, 0)
        }
    };
    Card { mig: Mig::Enabled((0..).zip(profiles).map(device).collect()), ..card(n) }
}

/// A node of these cards.
pub fn node(cards: Vec<Card>) -> Inventory {
    Inventory { driver_version: "570.86.15".to_owned(), cuda_version: Some((12, 8)), cards }
}

/// The pod `name` with one container `main`, whose record says `kind` and this much of each card.
pub fn pod(name: &str, id: Option<&str>, kind: GrantKind, grants: &[(&str, u64)]) -> NodePod {
    let grant = |(uuid, mib): &(&str, u64)| DeviceGrant {
        uuid: (*uuid).to_owned(),
        index: 0,
        memory: Mib(*mib),
        compute: Percent(0),
        mig: None,
    };
    let devices: Vec<DeviceGrant> = grants.iter().map(grant).collect();
    let record = ContainerAllocation { name: "main".to_owned(), kind: Some(kind), devices };
    NodePod {
        uid: PodUid::from(format!("uid-{name}").as_str()),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        containers: vec![PodContainer {
            name: "main".to_owned(),
            init: false,
            devices: Default::default(),
            id: id.map(str::to_owned),
        }],
        record: Some(Allocation { containers: vec![record] }).filter(|_| !grants.is_empty()),
        started_at: Some(Timestamp(1)),
    }
}
