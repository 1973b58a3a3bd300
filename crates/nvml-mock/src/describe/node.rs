//! The whole node.

use std::fmt;
use std::io;
use std::path::Path;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{CudaVersion, Failures, Gpu, is_default};

/// A node with its cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Node {
    /// Its name, which the UUIDs of its cards follow from: nodes of different names have different cards.
    #[serde(default = "Node::default_name")]
    pub name: String,
    /// What the machine is called in its firmware.
    #[serde(default = "Node::default_machine")]
    pub machine: String,
    /// The driver's version.
    #[serde(default = "Node::default_driver")]
    pub driver_version: String,
    /// The highest version of CUDA that the driver supports.
    #[serde(default = "Node::default_cuda")]
    pub cuda_version: CudaVersion,
    /// How many NUMA nodes the machine has; the cards are spread over them in order.
    #[serde(default = "Node::default_numa_nodes")]
    pub numa_nodes: u32,
    /// Its cards, in the order of their indices: a list, or one entry alone.
    #[serde(deserialize_with = "one_or_many")]
    pub gpus: Vec<Gpu>,
    /// Calls that fail on this node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail: Failures,
}

impl Node {
    /// A node with these cards.
    pub fn with(gpus: Vec<Gpu>) -> Self {
        Self {
            name: Self::default_name(),
            machine: Self::default_machine(),
            driver_version: Self::default_driver(),
            cuda_version: Self::default_cuda(),
            numa_nodes: Self::default_numa_nodes(),
            gpus,
            fail: Failures::new(),
        }
    }

    fn default_name() -> String {
        "node".to_owned()
    }

    fn default_machine() -> String {
        "Described Machine".to_owned()
    }

    fn default_driver() -> String {
        "580.95.05".to_owned()
    }

    fn default_cuda() -> CudaVersion {
        CudaVersion { major: 13, minor: 0 }
    }

    fn default_numa_nodes() -> u32 {
        1
    }

    /// Reads a description.
    ///
    /// # Errors
    ///
    /// If the text is not YAML, or has a key or a value that no description has. The message says where.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        serde_saphyr::from_str(text).map_err(|error| Invalid(first_line(&error)))
    }

    /// The description as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("every value of a description can be written")
    }

    /// Writes the description in one step, so that no reader sees half of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        crate::files::replace(file, &self.to_yaml())
    }
}

/// What is wrong with a description, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub(crate) String);

/// A reader of YAML may draw the place below its message; a line of a log has no room for that.
pub(crate) fn first_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Gpu>, D::Error> {
    struct Cards;

    impl<'de> Visitor<'de> for Cards {
        type Value = Vec<Gpu>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a card or a list of cards")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Gpu>, A::Error> {
            Gpu::deserialize(MapAccessDeserializer::new(map)).map(|gpu| vec![gpu])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<Gpu>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }

    deserializer.deserialize_any(Cards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::{GpuInstance, Link, NvmlError, Remote};

    #[test]
    fn what_is_written_is_read_again() {
        let mut node = Node::with(vec![Gpu::of("A100-SXM4-40GB"), Gpu { count: 2, ..Gpu::of("T4") }]);
        node.gpus[0].nvlink = vec![Link::to(Remote::Switch, 11), Link::to(Remote::Index(1), 1)];
        node.gpus[0].mig.enabled = true;
        node.gpus[0].mig.instances = vec![GpuInstance::of("3g.20gb")];
        node.gpus[0].gpm.insert(2, 12.5);
        node.gpus[0].fail = Function::all().map(|function| (function, NvmlError::GpuIsLost)).collect();
        node.gpus[1].power.usage = 27.5;
        assert_eq!(Node::parse(&node.to_yaml()), Ok(node));
    }

    use crate::describe::Function;

    #[test]
    fn one_entry_needs_no_list() {
        let node = Node::parse("gpus: {count: 8, model: T4}").unwrap();
        assert_eq!(node, Node::with(vec![Gpu { count: 8, ..Gpu::of("T4") }]));
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let cases = [
            ("{}", "gpus"),
            ("gpus: [{model: T4, temprature: 3}]", "temprature"),
            ("gpus: [{model: T4, utilization: {gpus: 3}}]", "gpus"),
            ("{gpus: [], fail: {nvmlDeviceGetPower: GPU_IS_LOST}}", "nvmlDeviceGetPower"),
            ("{gpus: [], fail: {nvmlDeviceGetPowerUsage: LOST}}", "LOST"),
            ("gpus: [{model: T4, nvlink: [{remote: there}]}]", "there"),
            ("gpus: [{model: T4, compute-capability: 8}]", "8"),
        ];
        for (text, word) in cases {
            let error = Node::parse(text).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
