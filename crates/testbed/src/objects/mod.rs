//! Kubernetes objects in a few words: simulated nodes, and pods that ask for GPUs.

mod nodes;
mod pods;

pub use nodes::{GpuModel, NodeObject, SIMULATED};
pub use pods::{PodObject, node_of, waiting};
