//! Labels of the driver and of CUDA.

use super::Labels;
use crate::inventory::Inventory;

/// The current names, and the deprecated ones that are still written.
pub(super) fn add(labels: &mut Labels, inventory: &Inventory) {
    let mut put = |name: &str, value: String| {
        labels.insert(format!("nvidia.com/cuda.{name}"), value);
    };
    let version = &inventory.driver_version;
    if !version.is_empty() {
        let mut parts = version.splitn(3, '.').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (major, minor, revision) = (next(), next(), next());
        for (name, old, value) in [
            ("driver-version.major", "driver.major", major),
            ("driver-version.minor", "driver.minor", minor),
            ("driver-version.revision", "driver.rev", revision),
        ] {
            put(name, value.clone());
            put(old, value);
        }
        put("driver-version.full", version.clone());
    }
    if let Some((major, minor)) = inventory.cuda_version {
        put("runtime-version.full", format!("{major}.{minor}"));
        for (name, old, value) in
            [("runtime-version.major", "runtime.major", major), ("runtime-version.minor", "runtime.minor", minor)]
        {
            put(name, value.to_string());
            put(old, value.to_string());
        }
    }
}
