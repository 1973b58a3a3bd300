//! MPS: one control daemon for each resource that is shared by it, and what containers are told of it.
//!
//! Two things are shared by MPS: replicas, where the configuration says `sharing.mps` (each may take an equal part, which the
//! server enforces), and seats for shares, where the agent is told so (each may take what its own record grants; the client
//! library enforces what it is told in the container's variables, as long as the container leaves them alone).

mod access;
mod control;
mod daemon;
mod supervise;

pub use access::{access, is_shared};
pub use supervise::supervise;

use std::path::PathBuf;
use std::time::Duration;

/// How control daemons are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpsOptions {
    /// `nvidia-cuda-mps-control`.
    pub control: PathBuf,
    /// `nvidia-smi`, for the compute mode of cards.
    pub smi: PathBuf,
    /// How often a daemon is asked whether it is well.
    pub check_every: Duration,
    /// The pause before a daemon that ended is started again; it doubles with each failure in a row.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
}

impl Default for MpsOptions {
    fn default() -> Self {
        Self {
            control: PathBuf::from("nvidia-cuda-mps-control"),
            smi: PathBuf::from("nvidia-smi"),
            check_every: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests;
