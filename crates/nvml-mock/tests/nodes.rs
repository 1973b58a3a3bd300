//! The nodes that are shipped, as a user of NVML sees them.

mod common;

use common::Loaded;
use gpu_scheduler_nvml_mock::Node;
use nvml_wrapper::enum_wrappers::device::Brand;

/// What is expected of one card.
#[derive(Clone)]
struct Card {
    name: &'static str,
    brand: Brand,
    capability: (i32, i32),
    memory: u64,
    links: u32,
    /// The profiles of its MIG devices, or nothing out of the mode.
    mig: Option<&'static [&'static str]>,
}

const A100_80: Card = Card {
    name: "NVIDIA A100-SXM4-80GB",
    brand: Brand::Nvidia,
    capability: (8, 0),
    memory: 81920,
    links: 12,
    mig: None,
};
const H100: Card = Card {
    name: "NVIDIA H100 80GB HBM3",
    brand: Brand::Nvidia,
    capability: (9, 0),
    memory: 81559,
    links: 18,
    mig: None,
};
const A10: Card =
    Card { name: "NVIDIA A10", brand: Brand::Nvidia, capability: (8, 6), memory: 23028, links: 0, mig: None };
const T4: Card =
    Card { name: "Tesla T4", brand: Brand::Nvidia, capability: (7, 5), memory: 15360, links: 0, mig: None };
const A30: Card =
    Card { name: "NVIDIA A30", brand: Brand::Nvidia, capability: (8, 0), memory: 24576, links: 0, mig: Some(&[]) };
const A100_40: Card = Card {
    name: "NVIDIA A100-SXM4-40GB",
    brand: Brand::Nvidia,
    capability: (8, 0),
    memory: 40960,
    links: 0,
    mig: None,
};

fn shipped() -> Vec<(&'static str, &'static str, Vec<Card>)> {
    let mixed = |mig| Card { mig, ..A100_40 };
    vec![
        ("8xA100-80GB-SXM", include_str!("../nodes/8xA100-80GB-SXM.yaml"), vec![A100_80; 8]),
        ("8xH100", include_str!("../nodes/8xH100.yaml"), vec![H100; 8]),
        ("4xA10", include_str!("../nodes/4xA10.yaml"), vec![A10; 4]),
        ("2xT4", include_str!("../nodes/2xT4.yaml"), vec![T4; 2]),
        ("1xA30", include_str!("../nodes/1xA30.yaml"), vec![A30]),
        (
            "A100-mixed-mig",
            include_str!("../nodes/A100-mixed-mig.yaml"),
            vec![
                mixed(None),
                mixed(Some(&["1g.5gb"; 7])),
                // By the ids of the GPU instances: halves, then quarters, then eighths.
                mixed(Some(&["2c.3g.20gb", "1c.3g.20gb", "2g.10gb", "1g.5gb+me"])),
                mixed(Some(&[])),
            ],
        ),
    ]
}

#[test]
fn every_shipped_node_enumerates_as_described() {
    let mut uuids = Vec::new();
    for (node, yaml, cards) in shipped() {
        let loaded = Loaded::new(&Node::parse(yaml).unwrap());
        assert_eq!(loaded.nvml.device_count().unwrap() as usize, cards.len(), "{node}");
        for (index, expected) in (0..).zip(cards) {
            let gpu = loaded.gpu(index);
            assert_eq!(gpu.index().unwrap(), index, "{node}");
            assert_eq!(gpu.minor_number().unwrap(), index, "{node}");
            assert_eq!(gpu.name().unwrap(), expected.name, "{node}");
            assert_eq!(gpu.brand().unwrap(), expected.brand, "{node}");
            let capability = gpu.cuda_compute_capability().unwrap();
            assert_eq!((capability.major, capability.minor), expected.capability, "{node}");
            assert_eq!(gpu.memory_info().unwrap().total >> 20, expected.memory, "{node}");
            let up = (0..18).filter(|link| gpu.link_wrapper_for(*link).is_active().unwrap_or(false)).count();
            assert_eq!(up as u32, expected.links, "{node}");

            let uuid = gpu.uuid().unwrap();
            assert_eq!(loaded.nvml.device_by_uuid(uuid.as_str()).unwrap().index().unwrap(), index, "{node}");
            let pci = gpu.pci_info().unwrap();
            for bus in [pci.bus_id.clone(), pci.bus_id.to_lowercase(), pci.bus_id[4..].to_owned()] {
                assert_eq!(loaded.nvml.device_by_pci_bus_id(bus.as_str()).unwrap().index().unwrap(), index, "{bus}");
            }
            uuids.push(uuid);

            let mode = gpu.mig_mode().map(|mode| mode.current).ok();
            assert_eq!(mode.unwrap_or(0), u32::from(expected.mig.is_some()), "{node} {index}");
            let devices: Vec<_> = (0..7).map_while(|mig| gpu.mig_device_by_index(mig).ok()).collect();
            let names: Vec<_> = devices.iter().map(|device| device.name().unwrap()).collect();
            let expected: Vec<_> = expected
                .mig
                .unwrap_or_default()
                .iter()
                .map(|profile| format!("{} MIG {profile}", expected.name))
                .collect();
            assert_eq!(names, expected, "{node} {index}");
            uuids.extend(devices.iter().map(|device| device.uuid().unwrap()));
        }
    }
    let all = uuids.len();
    uuids.sort();
    uuids.dedup();
    assert_eq!(uuids.len(), all, "every device has a UUID of its own");
}

#[test]
fn the_shipped_nodes_are_connected_as_described() {
    use nvml_wrapper::enum_wrappers::device::TopologyLevel::{Node as SameNode, Single, System};

    let cases = [
        ("8xA100-80GB-SXM", 0, 3, SameNode),
        ("8xA100-80GB-SXM", 3, 4, System),
        ("4xA10", 0, 1, Single),
        ("4xA10", 1, 2, System),
        ("4xA10", 2, 3, Single),
        ("2xT4", 0, 1, System),
    ];
    for (node, one, other, expected) in cases {
        let shipped = shipped();
        let (_, yaml, _) = shipped.iter().find(|(name, ..)| *name == node).unwrap();
        let loaded = Loaded::of(yaml);
        let found = loaded.gpu(one).topology_common_ancestor(loaded.gpu(other)).unwrap();
        assert_eq!(found, expected, "{node}: {one} and {other}");
    }
}

#[test]
fn cards_reach_each_other_by_links_or_near_by() {
    use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex as Index, P2pStatus as Status};

    let linked = "numa-nodes: 2\ngpus: {count: 2, model: H100-SXM5-80GB, nvlink: [{count: 18, remote: switch}]}";
    let near = "gpus: {count: 2, model: A10}";
    let far = "numa-nodes: 2\ngpus: {count: 2, model: A10}";
    let cases = [
        (linked, Index::NvLink, Status::Ok),
        (linked, Index::Read, Status::Ok),
        (near, Index::NvLink, Status::NotSupported),
        (near, Index::Read, Status::Ok),
        (far, Index::Read, Status::ChipsetNotSupported),
    ];
    for (node, index, expected) in cases {
        let loaded = Loaded::of(node);
        let status = loaded.gpu(0).p2p_status(&loaded.gpu(1), index);
        assert_eq!(status.unwrap(), expected, "{node}");
    }
}
