//! Nodes for tests.

use gpu_scheduler_engine::model::Mib;

use crate::inventory::{
    Card, CardIndex, ComputeCapability, GpuUuid, Inventory, Mig, MigDevice, MigProfile, MigUuid, Minor, PciBusId,
    Placement,
};

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

/// Card `n`, partitioned into these profiles: `MIG-<n>-<i>`.
pub fn partitioned(n: u32, profiles: &[&str]) -> Card {
    let device = |(i, profile): (u32, &&str)| {
        let gi = profile.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("c.");
        MigDevice {
            index: i,
            uuid: MigUuid::from(format!("MIG-{n}-{i}").as_str()),
            profile: MigProfile((*profile).into()),
            gpu_instance: i + 1,
            compute_instance: 0,
            placement: Placement { start: i, size: 1 },
            memory: Mib(9_728),
            multiprocessors: 14,
            slices: if gi { (2, 1) } else { (1, 1) },
            engines: [1, 0, 0, 0, 0],
        }
    };
    Card { mig: Mig::Enabled((0..).zip(profiles).map(device).collect()), ..card(n) }
}

/// A node of these cards.
pub fn node(cards: Vec<Card>) -> Inventory {
    Inventory { driver_version: "570.86.15".to_owned(), cuda_version: Some((12, 8)), cards }
}
