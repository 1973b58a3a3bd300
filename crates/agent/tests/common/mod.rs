//! A described node behind a copy of the library, and a collector that looks at it.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use gpu_scheduler_agent::collect::{CollectOptions, Collector, Round};
use gpu_scheduler_agent::health::{DEFAULT_QUIET, XidPolicy};
use gpu_scheduler_agent::inventory::{DeviceHealth, Inventory};
use gpu_scheduler_agent::pods::{NodePod, PodContainer};
use gpu_scheduler_engine::model::{
    Allocation, ContainerAllocation, DeviceGrant, GrantKind, Mib, Percent, PodUid, Timestamp,
};
use gpu_scheduler_nvml_mock::{Installation, Node};
use tempfile::TempDir;

/// A node on this machine for as long as a test runs.
pub struct TestNode {
    pub node: Node,
    installation: Installation,
    roots: TempDir,
}

impl TestNode {
    pub fn new(node: Node) -> Self {
        let installation = Installation::new(&node).unwrap();
        let test_node = Self { node, installation, roots: TempDir::new().unwrap() };
        test_node.write();
        test_node
    }

    /// One of the nodes that are shipped with the described library.
    pub fn shipped(name: &str) -> Self {
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../nvml-mock/nodes").join(name).with_extension("yaml");
        Self::new(Node::parse(&fs::read_to_string(file).unwrap()).unwrap())
    }

    /// Changes the node under whoever looks at it.
    pub fn change(&mut self, change: impl FnOnce(&mut Node)) {
        change(&mut self.node);
        self.write();
    }

    fn write(&self) {
        self.installation.write(&self.node).unwrap();
        self.installation.write_roots(&self.sysfs(), &self.procfs()).unwrap();
    }

    /// Where the library looks for its node.
    pub fn description(&self) -> PathBuf {
        self.installation.description()
    }

    pub fn sysfs(&self) -> PathBuf {
        self.roots.path().join("sys")
    }

    pub fn procfs(&self) -> PathBuf {
        self.roots.path().join("proc")
    }

    pub fn options(&self) -> CollectOptions {
        CollectOptions {
            nvml_path: self.installation.library(),
            sysfs_root: self.sysfs(),
            procfs_root: self.procfs(),
            xids: XidPolicy::default(),
            quiet: DEFAULT_QUIET,
        }
    }

    pub fn looking(&self) -> Looking {
        Looking { collector: Collector::new(self.options()), second: 0 }
    }
}

/// A collector whose rounds are ten seconds apart, however fast the test is.
pub struct Looking {
    pub collector: Collector,
    second: u64,
}

impl Looking {
    pub fn round(&mut self, pods: &[NodePod]) -> Round {
        self.second += 10;
        self.collector.round_at(pods, &[], Duration::from_secs(self.second)).unwrap()
    }
}

/// The cards and their parts, a line each.
pub fn shown(inventory: &Inventory) -> String {
    let mut text = format!("driver {} cuda {:?}\n", inventory.driver_version, inventory.cuda_version);
    for card in &inventory.cards {
        let links: Vec<String> = card.links.iter().map(|link| format!("{:?}x{}", link.peer, link.lanes)).collect();
        text += &format!(
            "{} {} {:?} minor {} at {} numa {:?} {} capability {}.{} links [{}]\n",
            card.index.0,
            card.uuid,
            card.name,
            card.minor.0,
            card.pci,
            card.numa_node,
            card.memory,
            card.capability.major,
            card.capability.minor,
            links.join(" ")
        );
        match &card.mig {
            gpu_scheduler_agent::inventory::Mig::Incapable => text += "  mig: incapable\n",
            gpu_scheduler_agent::inventory::Mig::Disabled => text += "  mig: disabled\n",
            gpu_scheduler_agent::inventory::Mig::Enabled(parts) => {
                text += "  mig: enabled\n";
                for part in parts {
                    text += &format!(
                        "  {} {} {} gi {} ci {} at {}+{} {} sms {} slices {:?} engines {:?}\n",
                        part.index,
                        part.uuid,
                        part.profile.0,
                        part.gpu_instance,
                        part.compute_instance,
                        part.placement.start,
                        part.placement.size,
                        part.memory,
                        part.multiprocessors,
                        part.slices,
                        part.engines
                    );
                }
            }
        }
    }
    text
}

/// The devices that are unhealthy, and why.
pub fn unhealthy(round: &Round) -> BTreeMap<String, String> {
    let of = |(device, health): (&_, &DeviceHealth)| match health {
        DeviceHealth::Healthy => None,
        DeviceHealth::Unhealthy { reason } => Some((ToString::to_string(device), reason.clone())),
    };
    round.health.iter().filter_map(of).collect()
}

/// A pod with one container of this id that has this much of a card.
pub fn pod(name: &str, container_id: &str, card: &str, mib: u64) -> NodePod {
    let device = DeviceGrant { uuid: card.to_owned(), index: 0, memory: Mib(mib), compute: Percent(0), mig: None };
    NodePod {
        uid: PodUid::from(format!("uid-{name}").as_str()),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        containers: vec![PodContainer {
            name: "main".to_owned(),
            init: false,
            devices: BTreeMap::new(),
            id: Some(container_id.to_owned()),
        }],
        record: Some(Allocation {
            containers: vec![ContainerAllocation {
                name: "main".to_owned(),
                kind: Some(GrantKind::Share),
                devices: vec![device],
            }],
        }),
        started_at: Some(Timestamp(1)),
    }
}
