//! The words that clusters are made of: few of each, so that things meet.

/// Topology keys.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// A failure domain.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// A smaller one, which some nodes lack.
pub(crate) const RACK: &str = "rack";
/// All of them.
pub(crate) const TOPOLOGIES: [&str; 3] = [HOSTNAME, ZONE, RACK];
/// Zones.
pub(crate) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// Racks.
pub(crate) const RACKS: [&str; 4] = ["rack-1", "rack-2", "rack-3", "rack-4"];
/// Values of the label `disk`.
pub(crate) const DISKS: [&str; 3] = ["ssd", "hdd", "nvme"];
/// Values of the label `app` of pods.
pub(crate) const APPS: [&str; 3] = ["web", "db", "batch"];
/// Values of the label `tier` of pods.
pub(crate) const TIERS: [&str; 2] = ["front", "back"];
/// An extended resource.
pub(crate) const WIDGET: &str = "example.com/widget";
/// A CSI driver.
pub(crate) const DRIVER: &str = "csi.example.com";
/// Images and how large they are.
pub(crate) const IMAGES: [(&str, u64); 4] = [
    ("example.com/small:1", 30 << 20),
    ("example.com/middle:latest", 300 << 20),
    ("example.com/large:2", 900 << 20),
    ("example.com/huge:1", 3 << 30),
];
/// How pods name them.
pub(crate) const IMAGE_NAMES: [&str; 5] =
    ["example.com/small:1", "example.com/middle", "example.com/large:2", "example.com/huge:1", "example.com/absent:1"];
/// Namespaces, each with a label `team`; the first is everybody's.
pub(crate) const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];
/// Priority classes that preempt nobody.
pub(crate) const CLASSES: [&str; 4] = ["low", "normal", "high", "higher"];
/// The priority class that preempts.
pub(crate) const CRITICAL: &str = "critical";
/// Runtime classes.
pub(crate) const RUNTIMES: [&str; 2] = ["light", "heavy"];
/// A storage class whose claims wait for their pod, and whose volumes are there.
pub(crate) const LATE: &str = "late";
/// A storage class whose claims wait for their pod, and whose volumes are made.
pub(crate) const MADE: &str = "made";
/// A storage class whose claims do not wait.
pub(crate) const AT_ONCE: &str = "at-once";
/// The storage class of volumes that are bound.
pub(crate) const FIXED: &str = "fixed";

/// The name of a node.
pub(crate) fn node_name(number: usize) -> String {
    format!("n{number:02}")
}
