//! The program with the specs, and a run of it.

use std::fs;
use std::path::{Path, PathBuf};

use super::report::Report;
use super::table::{Selection, Table};
use crate::control_plane::binaries::{built, minor_of};
use crate::control_plane::process::Program;
use crate::control_plane::{ControlPlane, ControlPlaneError, KubeScheduler, Options};

/// Serves workloads and groups of pods, by which gangs are scheduled.
const WORKLOADS: &str = "GenericWorkload";

/// The end-to-end specs of a minor.
#[derive(Debug)]
pub struct Suite {
    minor: String,
    program: PathBuf,
}

impl Suite {
    /// Finds the specs of a minor, as [`Options::minor`] says it, and builds them first if they are missing.
    ///
    /// # Errors
    ///
    /// An unknown minor, or a build that failed.
    pub async fn find(minor: Option<&str>) -> Result<Self, ControlPlaneError> {
        let minor = minor_of(minor).await?;
        let folder = built(&["--suite", "--path"], &minor).await?.pop().expect("the script prints three folders");
        Ok(Self { minor, program: folder.join("e2e.test") })
    }

    /// The minor.
    #[must_use]
    pub fn minor(&self) -> &str {
        &self.minor
    }

    /// The control plane that the specs need, with Kubernetes' own scheduler or without.
    #[must_use]
    pub fn options(&self, kube_scheduler: Option<KubeScheduler>) -> Options {
        // What the specs of this minor call, although it is off by default.
        let workloads = if self.minor == "1.36" { "v1alpha2" } else { "v1beta1" };
        Options {
            minor: Some(self.minor.clone()),
            like_kubelets: true,
            kube_scheduler,
            feature_gates: [(WORKLOADS.to_owned(), true)].into(),
            api_server_args: vec![format!("--runtime-config=scheduling.k8s.io/{workloads}=true")],
            ..Options::default()
        }
    }

    /// Runs the selected specs against a cluster, and keeps `e2e.test.log` and the report in `folder`.
    ///
    /// Dropping the future stops it.
    ///
    /// # Errors
    ///
    /// A program of the control plane ended meanwhile, or the suite ended without a report. Failed specs are none.
    pub async fn run(
        &self,
        cluster: &mut ControlPlane,
        table: &Table,
        selection: Selection,
        folder: &Path,
    ) -> Result<Report, ControlPlaneError> {
        let report = folder.join("report.json");
        let focus = table.focus(selection);
        let args = [
            format!("--kubeconfig={}", cluster.admin_kubeconfig().display()),
            "--provider=local".to_owned(),
            "--node-os-distro=custom".to_owned(),
            // Nodes that are not ready are the specs' business.
            "--allowed-not-ready-nodes=-1".to_owned(),
            // No machines to take logs from.
            "--disable-log-dump=true".to_owned(),
            "--dump-logs-on-failure=false".to_owned(),
            format!("--ginkgo.focus={focus}"),
            "--ginkgo.v".to_owned(),
            "--ginkgo.no-color".to_owned(),
            // The same order at every run.
            "--ginkgo.seed=1".to_owned(),
            "--ginkgo.timeout=3h".to_owned(),
            format!("--ginkgo.json-report={}", report.display()),
        ];
        let mut program = Program::start("e2e.test", &self.program, args, folder)?;
        let status = tokio::select! {
            status = program.wait() => status?,
            // Each spec would wait for minutes for what cannot come any more.
            error = cluster.ended() => return Err(error),
        };
        // It ends well only if no spec failed; whether one may fail is the table's.
        let read = fs::read(&report).and_then(|json| Ok(Report::read(&json)?));
        let log = program.end_of_log();
        read.map_err(|_| ControlPlaneError::Exited { program: program.name(), status, log })
    }
}
