//! What the kernel says and NVML does not: where cards sit, what the machine is, and whose a process is.
//!
//! Roots are options, so that an agent in a container reads the host's files, and a test its own.

mod cgroup;
mod processes;
mod sysfs;

pub use cgroup::{ContainerRef, read_cgroup};
pub use processes::{Origin, ProcessTable};
pub use sysfs::{GpuMode, Sysfs};
