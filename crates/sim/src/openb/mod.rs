//! The openb trace: Alibaba's GPU cluster trace 2023, as published with "Beware of Fragmentation"
//! (USENIX ATC 2023) in hkust-adsl/kubernetes-scheduler-simulator.

mod arrivals;
mod error;
mod mix;
mod nodes;
mod pods;

pub use arrivals::Arrivals;
pub(crate) use error::Table;
pub use error::TraceError;
pub use mix::two_dimensional_pods;
pub use nodes::{TraceNode, read_nodes};
pub use pods::{TracePod, read_pods};

/// The cards of all nodes, in thousandths.
pub fn capacity_milli(nodes: &[TraceNode]) -> u64 {
    nodes.iter().map(|n| 1000 * u64::from(n.gpus)).sum()
}
