//! What can go wrong with a control plane.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why there is no control plane, or why it did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlPlaneError {
    /// A minor that there is no module for.
    #[error(
        "no Kubernetes {minor} here; `scripts/build-control-plane --minors` lists what there is, and docs/cluster.md says how to add a minor"
    )]
    UnknownMinor {
        /// What was asked for.
        minor: String,
    },

    /// The build script failed; it has said why on standard error.
    #[error("{} failed ({status}); it says why above", script.display())]
    Build {
        /// The script.
        script: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },

    /// A file, folder or process could not be had from the operating system.
    #[error("{what}: {source}")]
    System {
        /// What was tried, and where.
        what: String,
        /// What the system said.
        source: io::Error,
    },

    /// No certificate could be made.
    #[error("could not make the {what}: {source}")]
    Certificate {
        /// Which one.
        what: &'static str,
        /// The cause.
        source: rcgen::Error,
    },

    /// All ports of the range are taken.
    #[error("no free port on 127.0.0.1 between {first} and {last}; stop what holds them")]
    NoPort {
        /// First of the range.
        first: u16,
        /// Last of the range.
        last: u16,
    },

    /// A program of the control plane is gone.
    #[error("{program} ended by itself ({status}). The end of its log:\n{log}")]
    Exited {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        log: String,
    },

    /// A program runs but does not answer.
    #[error("{program} was not ready within {} s; last answer: {answer}. The end of its log:\n{log}", patience.as_secs())]
    NotReady {
        /// Its name.
        program: &'static str,
        /// How long it had.
        patience: Duration,
        /// What it said last.
        answer: String,
        /// The last lines that it wrote.
        log: String,
    },

    /// An object never came into the state that was waited for.
    #[error("waited {} s for {what}, in vain{last}", patience.as_secs())]
    Waited {
        /// What was waited for.
        what: String,
        /// How long.
        patience: Duration,
        /// How it looked last, with a separator before it.
        last: String,
    },

    /// An access that nobody has.
    #[error("user '{user}' has no token here; name it in Options::users before the start")]
    UnknownUser {
        /// The user.
        user: String,
    },

    /// A kubeconfig would be written over a file of somebody else.
    #[error("{} is there and not a kubeconfig of ours; name another file", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },

    /// The access to the API server could not be turned into a client.
    #[error("kubeconfig of this control plane: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),

    /// The API server refused a request.
    #[error("{what}: {source}")]
    Request {
        /// What was asked.
        what: String,
        /// The answer.
        source: Box<kube::Error>,
    },
}

impl ControlPlaneError {
    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Request { what, source: Box::new(source) }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

/// Writes a file, and names it where that fails.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), ControlPlaneError> {
    std::fs::write(path, text).map_err(ControlPlaneError::system(format!("could not write {}", path.display())))
}
