//! The programs of Kubernetes: built by `scripts/build-control-plane` on the first use, then found in its cache.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::ControlPlaneError;

/// Which minor tests run against, where they do not say. `make matrix` sets it.
const MINOR: &str = "KUBERNETES_MINOR";

/// What the script answers to a minor that it has no module for.
const UNKNOWN_MINOR: i32 = 2;

/// Where the programs lie.
#[derive(Debug, Clone)]
pub struct Binaries {
    kubernetes: PathBuf,
    kwok: PathBuf,
}

impl Binaries {
    /// Finds the programs of a minor, and builds them first if they are missing, which takes a quarter of an hour;
    /// the script says so on standard error.
    ///
    /// Dropping the future stops the build.
    ///
    /// # Errors
    ///
    /// An unknown minor, or a build that failed.
    pub async fn find(minor: Option<&str>) -> Result<Self, ControlPlaneError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-control-plane");
        let minor = minor.map(str::to_owned).or_else(|| std::env::var(MINOR).ok().filter(|m| !m.is_empty()));
        let failed = |source| ControlPlaneError::System { what: format!("could not run {}", script.display()), source };
        let mut command = tokio::process::Command::new(&script);
        command.arg("--path").args(&minor).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut build = Build(command.spawn().map_err(failed)?);
        let output = build.output().await.map_err(failed)?;
        let status = build.0.wait().await.map_err(failed)?;
        if let Some(minor) = minor.filter(|_| status.code() == Some(UNKNOWN_MINOR)) {
            return Err(ControlPlaneError::UnknownMinor { minor });
        }
        let mut folders = output.lines().map(PathBuf::from);
        match (status.success(), folders.next(), folders.next()) {
            (true, Some(kubernetes), Some(kwok)) => Ok(Self { kubernetes, kwok }),
            _ => Err(ControlPlaneError::Build { script, status }),
        }
    }

    /// A program of Kubernetes by its name, such as `kubectl`.
    #[must_use]
    pub fn kubernetes(&self, program: &str) -> PathBuf {
        self.kubernetes.join(program)
    }

    pub(super) fn kwok(&self) -> PathBuf {
        self.kwok.join("kwok")
    }

    /// What kwok does with simulated nodes and pods.
    pub(super) fn kwok_stages(&self) -> PathBuf {
        self.kwok.join("stages.yaml")
    }
}

/// The running script.
struct Build(tokio::process::Child);

impl Build {
    async fn output(&mut self) -> std::io::Result<String> {
        use tokio::io::AsyncReadExt;
        let mut text = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut text).await?;
        }
        Ok(text)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // No id: it has ended and was waited for. Asked rather than killed, so that it stops the compiler and
        // removes what is half built.
        if let Some(pid) = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
