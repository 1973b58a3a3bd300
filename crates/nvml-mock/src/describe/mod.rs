//! The description of a node: what the YAML file says, as types that tests build and write.
//!
//! What a description leaves out, its [model](crate::models) or a plain default fills in; [`Machine`](crate::Machine) is the
//! result. Unknown keys are refused, for a telemetry value that was misspelt would be a test that cannot fail.

mod failure;
mod gpu;
mod identity;
mod mig;
mod node;
mod nvlink;
mod process;
mod telemetry;

pub use failure::{Failures, Function, NvmlError};
pub use gpu::{ComputeMode, Gpu};
pub use identity::{Architecture, Brand, BusId, ComputeCapability, CudaVersion, Pci};
pub use mig::{ComputeInstance, GpuInstance, Mig};
pub(crate) use node::first_line;
pub use node::{Invalid, Node};
pub use nvlink::{Fabric, FabricState, Link, Remote};
pub use process::{Process, ProcessKind, Xid};
pub use telemetry::{Clocks, Ecc, EccCounts, Gpm, Megabytes, Memory, Power, RemappedRows, ThrottleReason, Utilization};

/// Leaves a value out of what is written when it says nothing.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
