//! NVIDIA's configuration of a node: `version: v1`, as its device plugin reads it.
//!
//! The command line counts before the environment and the environment before the file. Reading decides once what every
//! part is: from then on all values are typed, and what is wrong has been said with its place. `docs/agent-config.md`
//! explains each field and where this reader differs.

mod environment;
mod file;
mod label;
mod problem;
mod select;
mod settle;
mod sharing;
mod source;
mod values;

pub use environment::from_environment;
pub use file::{
    Devices, FileSharing, Flags, GfdFlags, ImexFile, Layer, OneOrMany, PluginFlags, Replicated, SharedFile,
};
pub use gpu_scheduler_cluster::config::ConfigProblem;
pub use label::{read_label, read_label_named, watch_label, watch_label_named};
pub use problem::ConfigError;
pub use select::{Choice, Fallback, SelectError, select};
pub use sharing::{Replication, Sharing};
pub use source::{ConfigFiles, ConfigSource};
pub use values::{AllocationPolicy, DeviceIdStrategy, DeviceListStrategy, DiscoveryStrategy, MigStrategy, Version};

use std::collections::BTreeSet;
use std::path::PathBuf;

use gpu_scheduler_cluster::config::Span;

/// What is in effect on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How MIG devices are offered.
    pub mig_strategy: MigStrategy,
    /// Whether a node that cannot be offered as configured ends the agent; if not, it waits until it can.
    pub fail_on_init_error: bool,
    /// Folder of the host below which MPS keeps its pipes, logs and shared memory.
    pub mps_root: PathBuf,
    /// Root of the driver's installation on the host.
    pub driver_root: PathBuf,
    /// Root of its device nodes on the host.
    pub dev_root: PathBuf,
    /// How containers are told of their devices; never empty.
    pub device_list: BTreeSet<DeviceListStrategy>,
    /// How devices are called to them.
    pub device_id: DeviceIdStrategy,
    /// Whether device nodes are handed over as well.
    pub pass_device_specs: bool,
    /// What annotations with CDI names begin with.
    pub cdi_annotation_prefix: String,
    /// `nvidia-ctk` on the host.
    pub nvidia_ctk_path: PathBuf,
    /// The driver's root as this process sees it.
    pub container_driver_root: PathBuf,
    /// Where replicas go that nobody has placed.
    pub policy: AllocationPolicy,
    /// Extras that containers are told of.
    pub extras: Extras,
    /// The labels' part.
    pub gfd: Gfd,
    /// Whether and how devices are replicated.
    pub sharing: Sharing,
    /// IMEX channels that every container gets.
    pub imex: Imex,
}

/// Extras that containers are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// GDRCopy.
    pub gdrcopy: bool,
    /// GPUDirect storage.
    pub gds: bool,
    /// Mellanox OFED.
    pub mofed: bool,
}

/// How labels are written: the part of GPU Feature Discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gfd {
    /// Once, and not again.
    pub oneshot: bool,
    /// Without the time of writing.
    pub no_timestamp: bool,
    /// How often.
    pub sleep_interval: Span,
    /// A file to write to, if one is named.
    pub output_file: Option<PathBuf>,
    /// The file that names the machine.
    pub machine_type_file: PathBuf,
    /// By a `NodeFeature` object.
    pub use_node_feature_api: bool,
}

/// IMEX channels: NVIDIA knows of the first one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Imex {
    /// None.
    #[default]
    None,
    /// Channel 0.
    First {
        /// Whether a node without it is an error.
        required: bool,
    },
}

/// A configuration, and what was read and is not heeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What is in effect.
    pub config: Config,
    /// What is written and has no effect, each with its field and what to do.
    pub warnings: Vec<ConfigProblem>,
}

impl Config {
    /// What is in effect when nobody says anything.
    pub fn defaults() -> Self {
        Layer::default().settle().expect("the defaults are in order").config
    }
}

#[cfg(test)]
mod tests;
