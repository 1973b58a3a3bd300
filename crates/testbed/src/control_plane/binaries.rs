//! The programs of Kubernetes: built by `scripts/build-control-plane` on the first use, then found in its cache.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

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
        let minor = minor_of(minor).await?;
        let folders = built(&["--path"], &minor).await?;
        let [kubernetes, kwok] = folders.try_into().expect("the script prints two folders");
        Ok(Self { kubernetes, kwok })
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

/// The minor that tests run against: what `KUBERNETES_MINOR` says, else the newest there is.
///
/// # Errors
///
/// The script that knows them cannot be run.
pub async fn minor() -> Result<String, ControlPlaneError> {
    minor_of(None).await
}

/// The minor that is meant: the one that is wanted, else what the environment says, else the newest there is.
///
/// # Errors
///
/// The script that knows them cannot be run.
pub(crate) async fn minor_of(wanted: Option<&str>) -> Result<String, ControlPlaneError> {
    let said = wanted.map(str::to_owned).or_else(|| std::env::var(MINOR).ok().filter(|minor| !minor.is_empty()));
    match said {
        Some(minor) => Ok(minor),
        None => {
            let (_, minors) = run(&["--minors"]).await?;
            Ok(minors.lines().next().expect("there is a minor in the repository").to_owned())
        }
    }
}

/// Has the script build what `flags` ask for, and returns the folders that it prints.
pub(crate) async fn built(flags: &[&str], minor: &str) -> Result<Vec<PathBuf>, ControlPlaneError> {
    let (status, output) = run(&[flags, &[minor]].concat()).await?;
    match status.code() {
        Some(0) => Ok(output.lines().map(PathBuf::from).collect()),
        Some(UNKNOWN_MINOR) => Err(ControlPlaneError::UnknownMinor { minor: minor.to_owned() }),
        _ => Err(ControlPlaneError::Build { script: script(), status }),
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-control-plane")
}

async fn run(args: &[&str]) -> Result<(ExitStatus, String), ControlPlaneError> {
    let failed = || ControlPlaneError::system(format!("could not run {}", script().display()));
    let mut command = tokio::process::Command::new(script());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut build = Build(command.spawn().map_err(failed())?);
    let output = build.output().await.map_err(failed())?;
    let status = build.0.wait().await.map_err(failed())?;
    Ok((status, output))
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
