//! The openb trace: Alibaba's GPU cluster trace 2023, as published with "Beware of Fragmentation"
//! (USENIX ATC 2023) in hkust-adsl/kubernetes-scheduler-simulator.

mod arrivals;
mod error;
mod nodes;
mod pods;

pub use arrivals::Arrivals;
pub use error::TraceError;
pub use nodes::{TraceNode, read_nodes};
pub use pods::{TracePod, read_pods};
