//! Nodes as a kubelet, the device plugin and GPU Feature Discovery leave them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

use crate::builders::GPU;

/// The annotation by which kwok knows the nodes that it keeps.
pub const SIMULATED: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// What GPU Feature Discovery writes about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuModel {
    /// `nvidia.com/gpu.product`.
    pub product: &'static str,
    /// `nvidia.com/gpu.memory`, in MiB.
    pub memory_mib: u64,
    /// `nvidia.com/gpu.family`.
    pub family: &'static str,
    /// `nvidia.com/gpu.compute.major` and `.minor`.
    pub compute: (u32, u32),
    /// `nvidia.com/gpu.machine`: a server that has eight of them.
    pub machine: &'static str,
    /// `nvidia.com/mig.capable`.
    pub mig_capable: bool,
}

impl GpuModel {
    /// A100 with 80 GB, in a DGX A100.
    pub const A100_80GB: Self = Self {
        product: "NVIDIA-A100-SXM4-80GB",
        memory_mib: 81920,
        family: "ampere",
        compute: (8, 0),
        machine: "DGXA100-920-23687-2530-000",
        mig_capable: true,
    };
    /// H100 with 80 GB, in a DGX H100.
    pub const H100_80GB: Self = Self {
        product: "NVIDIA-H100-80GB-HBM3",
        memory_mib: 81559,
        family: "hopper",
        compute: (9, 0),
        machine: "DGXH100",
        mig_capable: true,
    };
    /// T4, in a rented machine.
    pub const T4: Self = Self {
        product: "Tesla-T4",
        memory_mib: 15360,
        family: "turing",
        compute: (7, 5),
        machine: "g4dn.metal",
        mig_capable: false,
    };
    /// Those above.
    pub const ALL: [Self; 3] = [Self::A100_80GB, Self::H100_80GB, Self::T4];
}

/// Makes a simulated [`Node`]: eight A100-80GB, 128 cores, 1 TiB and 110 pods unless told otherwise.
///
/// It is not ready: kwok makes it so, or [`ready`](Self::ready) says it from the start.
#[derive(Debug, Clone)]
pub struct NodeObject {
    metadata: ObjectMeta,
    spec: NodeSpec,
    status: NodeStatus,
    gpus: Option<(GpuModel, u32)>,
}

impl NodeObject {
    /// A node with eight A100-80GB.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let node = Self {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: NodeSpec::default(),
            status: NodeStatus::default(),
            gpus: Some((GpuModel::A100_80GB, 8)),
        };
        let (key, value) = SIMULATED;
        node.annotation(key, value)
            .label("kubernetes.io/hostname", name)
            .label("kubernetes.io/os", "linux")
            .label("kubernetes.io/arch", "amd64")
            .zone("zone-a")
            .resource("cpu", "128")
            .resource("memory", "1Ti")
            .resource("ephemeral-storage", "1Ti")
            .resource("pods", "110")
    }

    /// Other cards than eight A100-80GB; none if `count` is 0.
    #[must_use]
    pub fn gpus(mut self, count: u32, model: GpuModel) -> Self {
        self.gpus = (count > 0).then_some((model, count));
        self
    }

    /// Adds or changes a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds or changes an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// The failure domain.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/region", "region-1").label("topology.kubernetes.io/zone", zone)
    }

    /// Its own address; without, kwok gives all nodes the same.
    #[must_use]
    pub fn address(mut self, ip: &str) -> Self {
        let name = self.metadata.name.clone().expect("a node is made with a name");
        let addresses = [("InternalIP", ip.to_owned()), ("Hostname", name)];
        self.status.addresses =
            Some(addresses.map(|(type_, address)| NodeAddress { type_: type_.to_owned(), address }).into());
        self
    }

    /// States capacity, all of it allocatable.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: &str) -> Self {
        for resources in [&mut self.status.capacity, &mut self.status.allocatable] {
            resources.get_or_insert_default().insert(name.to_owned(), Quantity(amount.to_owned()));
        }
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint =
            Taint { key: key.to_owned(), value: Some(value.to_owned()), effect: effect.to_owned(), ..Taint::default() };
        self.spec.taints.get_or_insert_default().push(taint);
        self
    }

    /// Ready from the start, for control planes where nobody makes it ready.
    #[must_use]
    pub fn ready(mut self) -> Self {
        let condition = NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: Some("Simulated".to_owned()),
            ..NodeCondition::default()
        };
        self.status.conditions.get_or_insert_default().push(condition);
        self
    }

    /// The object.
    #[must_use]
    pub fn build(mut self) -> Node {
        if let Some((model, count)) = self.gpus {
            self = self.resource(GPU, &count.to_string());
            // A label that was set by hand stays.
            let labels = self.metadata.labels.get_or_insert_default();
            for (key, value) in discovered(model, count) {
                labels.entry(key).or_insert(value);
            }
        }
        self.status.node_info.get_or_insert_with(|| NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            ..NodeSystemInfo::default()
        });
        Node { metadata: self.metadata, spec: Some(self.spec), status: Some(self.status) }
    }
}

/// The labels that GPU Feature Discovery writes for cards that nobody shares or partitions, and those by which the
/// GPU operator and node feature discovery mark a machine with GPUs.
fn discovered(model: GpuModel, count: u32) -> BTreeMap<String, String> {
    let GpuModel { product, memory_mib, family, compute: (major, minor), machine, mig_capable } = model;
    let text = str::to_owned;
    let nvidia = [
        ("gpu.product", text(product)),
        ("gpu.count", count.to_string()),
        ("gpu.memory", memory_mib.to_string()),
        ("gpu.family", text(family)),
        ("gpu.compute.major", major.to_string()),
        ("gpu.compute.minor", minor.to_string()),
        ("gpu.machine", text(machine)),
        ("gpu.mode", text("compute")),
        ("gpu.replicas", text("1")),
        ("gpu.sharing-strategy", text("none")),
        ("gpu.present", text("true")),
        ("mig.capable", mig_capable.to_string()),
        ("mps.capable", text("false")),
        ("vgpu.present", text("false")),
        ("cuda.driver-version.major", text("580")),
        ("cuda.driver-version.minor", text("65")),
        ("cuda.driver-version.revision", text("06")),
        ("cuda.driver-version.full", text("580.65.06")),
        ("cuda.runtime-version.major", text("13")),
        ("cuda.runtime-version.minor", text("0")),
        ("cuda.runtime-version.full", text("13.0")),
        ("gfd.timestamp", text("1764547200")),
    ];
    let mut labels: BTreeMap<String, String> =
        nvidia.into_iter().map(|(key, value)| (format!("nvidia.com/{key}"), value)).collect();
    labels.insert(text("feature.node.kubernetes.io/pci-10de.present"), text("true"));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_a100_unless_told_otherwise() {
        let node = NodeObject::new("n1").build();
        let labels = node.metadata.labels.unwrap();
        assert_eq!(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-80GB");
        assert_eq!((&*labels["nvidia.com/gpu.memory"], &*labels["nvidia.com/gpu.count"]), ("81920", "8"));
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.unwrap()[GPU], Quantity("8".to_owned()));
        assert_eq!(status.conditions, None);
    }

    #[test]
    fn a_node_without_gpus_says_nothing_of_them() {
        let node = NodeObject::new("n1").gpus(0, GpuModel::T4).build();
        assert!(!node.metadata.labels.unwrap().keys().any(|key| key.starts_with("nvidia.com/")));
        assert!(!node.status.unwrap().capacity.unwrap().contains_key(GPU));
    }

    #[test]
    fn a_label_set_by_hand_wins() {
        let node = NodeObject::new("n1").label("nvidia.com/gpu.memory", "40960").build();
        assert_eq!(node.metadata.labels.unwrap()["nvidia.com/gpu.memory"], "40960");
    }
}
