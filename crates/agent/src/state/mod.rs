//! What the node reports to the cluster: its `GPUNodeState` and its annotations, seldom and only when something moved.

mod backoff;
mod build;
mod cadence;
mod document;
mod movement;
mod object;
mod other;
mod trouble;
mod writer;
#[cfg(test)]
mod writer_tests;

pub(crate) use backoff::Backoff;
pub use build::{Instance, annotations, status};
pub use cadence::{Cadence, Report, Wait};
pub use document::{
    AgentStatus, Annotations, DeviceStatus, HolderStatus, LinkStatus, PartitionStatus, Status, TopologyManagerStatus,
};
pub use other::Others;
pub use trouble::Target;
pub use writer::{Desired, Writer, run};

/// The field manager of what the agent writes, but for labels.
pub(crate) const MANAGER: &str = "gpu-scheduler-agent";
