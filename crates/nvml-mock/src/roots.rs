//! The files of the kernel that go with a node: what NVML does not say is read from sysfs and procfs.
//!
//! The layout is that of the kernel and of NVIDIA's driver:
//!
//! | file | what it says |
//! |---|---|
//! | sysfs `bus/pci/devices/0000:07:00.0/numa_node` | the NUMA node, or -1 |
//! | sysfs `bus/pci/devices/0000:07:00.0/class`, `vendor`, `device` | what it is, in hex |
//! | sysfs `class/dmi/id/product_name` | the machine's name |
//! | procfs `driver/nvidia/version` | the driver's version, in a sentence |
//! | procfs `driver/nvidia/gpus/0000:07:00.0/information` | name, UUID, minor number |
//! | procfs `driver/nvidia/capabilities/gpu0/mig/gi2/access` and `…/gi2/ci0/access` | the minor number in `/dev/nvidia-caps` |
//! | procfs `driver/nvidia-caps/mig-minors` | all of those minor numbers |
//! | procfs `1234/cgroup`, `1234/comm` | of described processes that have a control group or a name |

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::machine::{Card, Machine, Unreadable};

/// Why the files could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no node.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The first minor number of instances; those before are for the configuration and the monitor of MIG.
const FIRST_MINOR: u32 = 3;

/// How many GPU instances a card's numbers leave room for, and compute instances in each.
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;

/// The minor number in `/dev/nvidia-caps` of a GPU instance, or of a compute instance in it.
pub fn capability_minor(gpu_minor: u32, gpu_instance: u32, compute_instance: Option<u32>) -> u32 {
    let instance = (gpu_minor * GPU_INSTANCES + gpu_instance) * (1 + COMPUTE_INSTANCES);
    FIRST_MINOR + instance + compute_instance.map_or(0, |compute| 1 + compute)
}

/// Writes the files of a node below two folders, which stand for `/sys` and `/proc`. What is there of an earlier node and goes
/// by its names is replaced: the cards, the instances. Other processes stay.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(machine: &Machine, sysfs: &Path, procfs: &Path) -> Result<(), Error> {
    write_sysfs(machine, sysfs)?;
    write_driver(machine, procfs)?;
    for process in machine.cards.iter().flat_map(|card| &card.gpu.processes) {
        let folder = procfs.join(process.pid.to_string());
        if let Some(cgroup) = &process.cgroup {
            put(&folder.join("cgroup"), &format!("0::{cgroup}\n"))?;
        }
        if let Some(name) = &process.name {
            put(&folder.join("comm"), &format!("{name}\n"))?;
        }
    }
    Ok(())
}

fn write_sysfs(machine: &Machine, sysfs: &Path) -> io::Result<()> {
    clear(&sysfs.join("bus/pci/devices"))?;
    for card in &machine.cards {
        let pci = card.gpu.pci.device_id.unwrap_or(card.model.pci);
        let class = card.gpu.pci.class.unwrap_or(0x03_02_00);
        let folder = sysfs.join("bus/pci/devices").join(card.bus.sysfs());
        let node = card.numa_node.map_or(-1, i64::from);
        put(&folder.join("numa_node"), &format!("{node}\n"))?;
        put(&folder.join("class"), &format!("{class:#08x}\n"))?;
        put(&folder.join("vendor"), &format!("{:#06x}\n", pci & 0xFFFF))?;
        put(&folder.join("device"), &format!("{:#06x}\n", pci >> 16))?;
    }
    put(&sysfs.join("class/dmi/id/product_name"), &format!("{}\n", machine.node.machine))
}

fn write_driver(machine: &Machine, procfs: &Path) -> io::Result<()> {
    let driver = procfs.join("driver/nvidia");
    clear(&driver)?;
    let version = &machine.node.driver_version;
    put(&driver.join("version"), &format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}\n"))?;
    let mut minors = "config 1\nmonitor 2\n".to_owned();
    for card in &machine.cards {
        put(&driver.join("gpus").join(card.bus.sysfs()).join("information"), &information(card))?;
        write_capabilities(card, &driver.join("capabilities"))?;
        list_minors(card.minor, &mut minors);
    }
    put(&procfs.join("driver/nvidia-caps/mig-minors"), &minors)
}

fn information(card: &Card) -> String {
    let mut text = String::new();
    for (name, value) in [
        ("Model", card.name.clone()),
        ("GPU UUID", card.uuid.clone()),
        ("Bus Location", card.bus.sysfs()),
        ("Device Minor", card.minor.to_string()),
    ] {
        writeln!(text, "{:<14}\t {value}", format!("{name}:")).expect("a string takes all");
    }
    text
}

fn write_capabilities(card: &Card, capabilities: &Path) -> io::Result<()> {
    let access = |minor| format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    let mig = capabilities.join(format!("gpu{}/mig", card.minor));
    for instance in card.instances.iter() {
        let folder = mig.join(format!("gi{}", instance.id));
        put(&folder.join("access"), &access(capability_minor(card.minor, instance.id, None)))?;
        for compute in &instance.compute {
            let minor = capability_minor(card.minor, instance.id, Some(compute.id));
            put(&folder.join(format!("ci{}/access", compute.id)), &access(minor))?;
        }
    }
    Ok(())
}

/// The driver lists what there could be, not what there is.
fn list_minors(gpu: u32, minors: &mut String) {
    for instance in 0..GPU_INSTANCES {
        let mut line = |what: String, compute| {
            writeln!(minors, "gpu{gpu}/gi{instance}{what}/access {}", capability_minor(gpu, instance, compute))
                .expect("a string takes all");
        };
        line(String::new(), None);
        (0..COMPUTE_INSTANCES).for_each(|compute| line(format!("/ci{compute}"), Some(compute)));
    }
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(crate::files::folder(file))?;
    fs::write(file, text)
}

fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;
    use crate::machine::Written;

    #[test]
    fn capabilities_are_numbered_as_the_driver_does() {
        assert_eq!(capability_minor(0, 0, None), 3);
        assert_eq!(capability_minor(0, 0, Some(0)), 4);
        assert_eq!(capability_minor(0, 1, None), 12);
        assert_eq!(capability_minor(1, 0, None), 138);
    }

    #[test]
    fn a_node_has_its_files() {
        let text = "
            machine: Two
            gpus:
              - {model: A30, numa-node: 1, mig: {enabled: true, instances: [{profile: 2g.12gb}]}}
              - model: T4
                numa-node: -1
                pci: {class: 0x030000}
                processes: [{pid: 42, name: train, cgroup: /kubepods/pod1}]";
        let machine = Machine::new(Node::parse(text).unwrap(), &Written::default()).unwrap();
        let root = tempfile::tempdir().unwrap();
        let (sysfs, procfs) = (root.path().join("sys"), root.path().join("proc"));
        // Twice, for the second must leave nothing of the first.
        write(&machine, &sysfs, &procfs).unwrap();
        write(&machine, &sysfs, &procfs).unwrap();
        let cases = [
            ("sys/bus/pci/devices/0000:07:00.0/numa_node", "1\n"),
            ("sys/bus/pci/devices/0000:07:00.0/class", "0x030200\n"),
            ("sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:0f:00.0/numa_node", "-1\n"),
            ("sys/bus/pci/devices/0000:0f:00.0/class", "0x030000\n"),
            ("sys/bus/pci/devices/0000:0f:00.0/device", "0x1eb8\n"),
            ("sys/class/dmi/id/product_name", "Two\n"),
            (
                "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access",
                "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
            ),
            (
                "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access",
                "DeviceFileMinor: 13\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
            ),
            ("proc/42/cgroup", "0::/kubepods/pod1\n"),
            ("proc/42/comm", "train\n"),
        ];
        for (file, text) in cases {
            assert_eq!(fs::read_to_string(root.path().join(file)).unwrap(), text, "{file}");
        }
        let minors = fs::read_to_string(root.path().join("proc/driver/nvidia-caps/mig-minors")).unwrap();
        assert!(minors.contains("\ngpu1/gi0/ci0/access 139\n"), "{minors}");
    }
}
