//! Who binds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Bed, Workload};
use crate::control_plane::process::Program;
use crate::control_plane::{ControlPlane, ControlPlaneError, KubeScheduler};
use crate::objects::PodObject;
use crate::usage::{memory_mib, processor_time};

/// Who binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Kubernetes' own scheduler, without its own limit of requests.
    KubeScheduler,
    /// `gpu-scheduler run`.
    Ours,
    /// A loop of binding requests that decides nothing, beside an open watch of the pods: what the API server allows.
    BareLoop,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Ours => "gpu-scheduler",
            Self::BareLoop => "bare-loop",
        })
    }
}

impl FromStr for Who {
    type Err = String;

    /// By the name that it is shown under.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = Self::ALL.into_iter();
        all.clone().find(|who| who.to_string() == name).ok_or_else(|| {
            let names: Vec<String> = all.map(|who| who.to_string()).collect();
            format!("nobody who binds is called so; there are {}", names.join(", "))
        })
    }
}

impl Who {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::KubeScheduler, Self::Ours, Self::BareLoop];

    /// A pod that is this one's to bind.
    pub(super) fn pod(self, name: &str, workload: Workload) -> PodObject {
        let pod = PodObject::new(name).scheduler(match self {
            Self::KubeScheduler => "default-scheduler",
            Self::Ours => "gpu-scheduler",
            Self::BareLoop => "nobody",
        });
        match workload {
            Workload::Whole => pod.gpus(1),
            Workload::Shares => pod.share("8Gi", 10),
        }
    }
}

/// A scheduler that runs.
pub(super) enum Running {
    /// It is a part of the control plane.
    Kube,
    /// It is a program of its own.
    Ours(Program),
}

impl Running {
    /// Starts it; for the bare loop there is nothing to start.
    pub async fn start(bed: &mut Bed<'_>, who: Who) -> Result<Option<Self>, ControlPlaneError> {
        match who {
            Who::KubeScheduler => {
                bed.cluster.start_kube_scheduler(&KubeScheduler::default()).await?;
                Ok(Some(Self::Kube))
            }
            Who::Ours => {
                let args = ["run", "--leader-elect", "false", "--bind-address", "127.0.0.1:0", "--kubeconfig"];
                let args = args.into_iter().map(str::to_owned).chain([bed.kubeconfig.display().to_string()]);
                let started = Program::start("gpu-scheduler", &bed.settings.scheduler, args, bed.cluster.folder());
                started.map(Self::Ours).map(Some)
            }
            Who::BareLoop => Ok(None),
        }
    }

    /// What it used so far.
    pub fn used(&self, cluster: &ControlPlane) -> Used {
        let pid = match self {
            Self::Ours(program) => Some(program.pid()),
            Self::Kube => {
                cluster.processes().into_iter().find(|(name, _)| *name == "kube-scheduler").map(|(_, pid)| pid)
            }
        };
        pid.map(Used::of).unwrap_or_default()
    }

    /// Ends it.
    pub fn stop(self, cluster: &mut ControlPlane) {
        match self {
            Self::Kube => cluster.stop_kube_scheduler(),
            Self::Ours(program) => drop(program),
        }
    }
}

/// What a process used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    /// User and system time.
    pub cpu: Duration,
    /// Resident memory at its most, MiB.
    pub mib: u64,
}

impl Used {
    fn of(pid: u32) -> Self {
        Self { cpu: processor_time(pid), mib: memory_mib(pid, "VmHWM") }
    }
}
