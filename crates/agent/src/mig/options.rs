//! How MIG's configuration is followed on a node.

use std::path::PathBuf;
use std::time::Duration;

use crate::nvml::DEFAULT_PATH;

/// How MIG's configuration is followed on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// NVIDIA's management library.
    pub nvml_path: PathBuf,
    /// mig-parted's file; without one the standard names count, made from what the cards say.
    pub file: Option<PathBuf>,
    /// The file that keeps changes which have begun.
    pub journal: PathBuf,
    /// How often it is looked whether cards that were in use are idle now, or reset, or can be put back.
    pub retry_every: Duration,
    /// Whether somebody reboots nodes that are in the state `rebooting`. If not, a card whose mode waits for a reset makes
    /// the state `failed`.
    pub reboots: bool,
}

impl Options {
    /// As on a node that is set up as usual.
    pub fn usual(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            nvml_path: PathBuf::from(DEFAULT_PATH),
            file: None,
            journal: PathBuf::from("/var/lib/gpu-scheduler/agent/mig-changes.json"),
            retry_every: Duration::from_secs(30),
            reboots: false,
        }
    }
}
