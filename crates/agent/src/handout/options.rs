//! How the hand-out is set up on a node.

use std::path::PathBuf;
use std::time::Duration;

use super::DEFAULT_CHECKPOINT;
use crate::config::{ConfigFiles, ConfigSource, Layer};
use crate::resources::SeatRules;
use crate::sharing::mps::MpsOptions;

/// How the hand-out is set up on a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// kubelet's folder for device plugins.
    pub plugins: PathBuf,
    /// kubelet's socket; in that folder where nothing is said.
    pub kubelet: Option<PathBuf>,
    /// kubelet's socket for its list of pods' devices.
    pub pod_resources: PathBuf,
    /// The file that keeps what was handed out.
    pub checkpoint: PathBuf,
    /// NVIDIA's configuration.
    pub config: ConfigSource,
    /// Seats for shares.
    pub seats: SeatRules,
    /// The folder for the CDI specification.
    pub cdi: PathBuf,
    /// The host's root as this process sees it: its `/dev` is looked at.
    pub root: PathBuf,
    /// The host's procfs.
    pub procfs: PathBuf,
    /// Whether cards are partitioned here: what cannot be offered at the start may be later.
    pub partitions: bool,
    /// MPS control daemons.
    pub mps: MpsOptions,
    /// How long a call that nothing explains may wait in all.
    pub patience: Duration,
    /// How long something that was given to nobody that is known is believed to be held, although kubelet does not list it.
    pub grace: Duration,
    /// How often the books are compared with kubelet's list.
    pub reconcile_every: Duration,
}

impl Options {
    /// As on a node that is set up as usual. `KUBELET_SOCKET` is the caller's to read.
    pub fn usual(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            plugins: PathBuf::from("/var/lib/kubelet/device-plugins"),
            kubelet: None,
            pod_resources: PathBuf::from("/var/lib/kubelet/pod-resources/kubelet.sock"),
            checkpoint: PathBuf::from(DEFAULT_CHECKPOINT),
            config: ConfigSource {
                files: ConfigFiles::None,
                environment: Layer::default(),
                command_line: Layer::default(),
            },
            seats: SeatRules::default(),
            cdi: PathBuf::from("/var/run/cdi"),
            root: PathBuf::from("/"),
            procfs: PathBuf::from("/proc"),
            partitions: false,
            mps: MpsOptions::default(),
            patience: Duration::from_secs(5),
            grace: Duration::from_secs(60),
            reconcile_every: Duration::from_secs(30),
        }
    }
}
