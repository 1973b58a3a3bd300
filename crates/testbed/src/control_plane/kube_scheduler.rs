//! Kubernetes' own scheduler.

use std::path::Path;

use super::error::write;
use super::options::KubeScheduler;
use super::ports::Port;
use super::probe::until_ready;
use super::process::Program;
use super::{ControlPlaneError, Setup};

/// The running scheduler.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) program: Program,
    port: Port,
}

impl Scheduler {
    pub(super) async fn start(
        setup: &Setup<'_>,
        kubeconfig: &Path,
        wanted: &KubeScheduler,
    ) -> Result<Self, ControlPlaneError> {
        let name = "kube-scheduler";
        let folder = setup.folder.path();
        let port = Port::claim()?;
        let config = folder.join("kube-scheduler.yaml");
        write(&config, &configuration(kubeconfig, wanted))?;
        let mut args = vec![
            format!("--config={}", config.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", port.number()),
            format!("--authentication-kubeconfig={}", kubeconfig.display()),
            format!("--authorization-kubeconfig={}", kubeconfig.display()),
            // Benchmarks read its histograms; the port is on the loopback and the cluster a throwaway.
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics".to_owned(),
        ];
        args.extend(setup.certificates.serving_args());
        args.extend(setup.options.feature_gates_arg());
        args.extend(wanted.args.iter().cloned());
        let mut program = Program::start(name, &setup.binaries.kubernetes(name), args, folder)?;
        let client = setup.tls_client(&url(&port))?;
        until_ready(&mut program, &client, "/readyz").await?;
        Ok(Self { program, port })
    }

    /// Where it serves its metrics.
    pub(super) fn url(&self) -> String {
        url(&self.port)
    }
}

fn url(port: &Port) -> String {
    format!("https://127.0.0.1:{}", port.number())
}

fn configuration(kubeconfig: &Path, wanted: &KubeScheduler) -> String {
    let KubeScheduler { qps, config, .. } = wanted;
    let kubeconfig = serde_json::Value::from(kubeconfig.to_string_lossy());
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: {qps}, burst: {qps}}}
leaderElection: {{leaderElect: false}}
{config}
"
    )
}
