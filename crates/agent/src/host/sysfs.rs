//! What sysfs says of the machine and of places on its bus.

use std::fs;
use std::path::{Path, PathBuf};

use crate::inventory::PciBusId;

/// PCI class of a 3D controller, without its last byte.
const CLASS_3D: u32 = 0x0302;
/// PCI class of a VGA controller, without its last byte.
const CLASS_VGA: u32 = 0x0300;

/// What cards are for, as GPU Feature Discovery names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuMode {
    /// To compute: 3D controllers.
    Compute,
    /// To show: VGA controllers.
    Graphics,
    /// Something else, or not the same for all.
    Unknown,
}

impl GpuMode {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Graphics => "graphics",
            Self::Unknown => "unknown",
        }
    }

    /// Of several cards together.
    pub fn of_all(modes: impl IntoIterator<Item = Self>) -> Self {
        let mut modes = modes.into_iter();
        let first = modes.next().unwrap_or(Self::Unknown);
        if modes.all(|mode| mode == first) { first } else { Self::Unknown }
    }
}

/// The files below a root such as `/sys`.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// Below `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The NUMA node of a place on the bus; `None` where the machine does not say.
    pub fn numa_node(&self, pci: &PciBusId) -> Option<u32> {
        // -1 is the kernel's word for none.
        self.pci_file(pci, "numa_node")?.parse().ok()
    }

    /// What a card is for.
    pub fn mode(&self, pci: &PciBusId) -> GpuMode {
        let class = self.pci_file(pci, "class").and_then(|text| {
            let digits = text.strip_prefix("0x").unwrap_or(&text).to_owned();
            u32::from_str_radix(&digits, 16).ok()
        });
        match class.map(|class| class >> 8) {
            Some(CLASS_3D) => GpuMode::Compute,
            Some(CLASS_VGA) => GpuMode::Graphics,
            _ => GpuMode::Unknown,
        }
    }

    /// What the machine calls itself.
    pub fn machine(&self) -> Option<String> {
        read(&self.root.join("class/dmi/id/product_name"))
    }

    fn pci_file(&self, pci: &PciBusId, name: &str) -> Option<String> {
        read(&self.root.join("bus/pci/devices").join(pci.in_sysfs()).join(name))
    }
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_together() {
        use GpuMode::{Compute, Graphics, Unknown};
        for (modes, expected) in [
            (vec![Compute, Compute], Compute),
            (vec![Graphics], Graphics),
            (vec![Compute, Graphics], Unknown),
            (vec![], Unknown),
        ] {
            assert_eq!(GpuMode::of_all(modes.clone()), expected, "{modes:?}");
        }
    }

    #[test]
    fn files() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::new(root.path().to_owned());
        let put = |name: &str, file: &str, text: &str| {
            let folder = root.path().join("bus/pci/devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        put("0000:0f:00.0", "numa_node", "1\n");
        put("0000:0f:00.0", "class", "0x030200\n");
        put("10000:07:00.0", "numa_node", "-1\n");
        put("10000:07:00.0", "class", "0x030000\n");
        for (bus_id, numa_node, mode) in [
            ("00000000:0F:00.0", Some(1), GpuMode::Compute),
            ("00010000:07:00.0", None, GpuMode::Graphics),
            ("00000000:01:00.0", None, GpuMode::Unknown),
        ] {
            let pci = PciBusId::from(bus_id);
            assert_eq!((sysfs.numa_node(&pci), sysfs.mode(&pci)), (numa_node, mode), "{bus_id}");
        }
        assert_eq!(sysfs.machine(), None);
        fs::create_dir_all(root.path().join("class/dmi/id")).unwrap();
        fs::write(root.path().join("class/dmi/id/product_name"), "DGXA100 920-23687\n").unwrap();
        assert_eq!(sysfs.machine().as_deref(), Some("DGXA100 920-23687"));
    }
}
