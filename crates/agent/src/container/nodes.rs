//! Device nodes of the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::inventory::{DeviceUuid, Inventory, MigDevice, Minor};

/// Nodes that every container with a device needs.
const CONTROL: [&str; 4] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// In the container, below `/dev`.
    pub path: PathBuf,
    /// On the host.
    pub host_path: PathBuf,
}

/// The nodes that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceNodes {
    /// For every container with a device.
    pub control: Vec<DeviceNode>,
    /// By device.
    pub devices: BTreeMap<DeviceUuid, Vec<DeviceNode>>,
}

impl DeviceNodes {
    /// Looks at the host's `/dev`, below `root` (`/`, or where the host is mounted), and at its `/proc`.
    pub fn find(root: &Path, procfs: &Path, config: &Config, inventory: &Inventory) -> Self {
        let host = |name: &str| DeviceNode {
            path: Path::new("/dev").join(name),
            host_path: config.dev_root.join("dev").join(name),
        };
        let seen = |node: &DeviceNode| below(root, &node.host_path).exists();
        let mut nodes = Self { control: CONTROL.map(host).into_iter().filter(seen).collect(), ..Self::default() };
        for card in &inventory.cards {
            let own = host(&format!("nvidia{}", card.minor.0));
            for device in card.mig.devices() {
                let caps = capabilities(procfs, card.minor, device);
                let caps = caps.into_iter().map(|cap| host(&format!("nvidia-caps/nvidia-cap{cap}")));
                let all = std::iter::once(own.clone()).chain(caps).collect();
                nodes.devices.insert(DeviceUuid::Mig(device.uuid.clone()), all);
            }
            nodes.devices.insert(DeviceUuid::Gpu(card.uuid.clone()), vec![own]);
        }
        nodes
    }
}

/// A path of the host, seen from here.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Minors of the nodes that open a MIG device: its GPU instance's and its compute instance's.
fn capabilities(procfs: &Path, card: Minor, device: &MigDevice) -> Vec<u32> {
    let instance = format!("driver/nvidia/capabilities/gpu{}/mig/gi{}", card.0, device.gpu_instance);
    let files = [format!("{instance}/access"), format!("{instance}/ci{}/access", device.compute_instance)];
    let minor = |file: &String| {
        let text = fs::read_to_string(procfs.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok())
    };
    files.iter().filter_map(minor).collect()
}
