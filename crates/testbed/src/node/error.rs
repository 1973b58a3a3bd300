//! What can go wrong with a real node.

use std::path::PathBuf;
use std::process::ExitStatus;

use crate::control_plane::ControlPlaneError;

/// Why there is no node, or why it did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Somebody who may not make namespaces and control groups.
    #[error("a real node needs root, and this process runs as user {uid}; run it as root, in a virtual machine say")]
    NotRoot {
        /// Who we are.
        uid: u32,
    },

    /// A program that is not on this machine.
    #[error("a real node needs {program}, which is not in PATH; run scripts/install-node-runtime as root")]
    NoProgram {
        /// Its name.
        program: &'static str,
    },

    /// A busybox that needs libraries, which the image has not got.
    #[error("{} is linked dynamically and would not run in a container of its own; run scripts/install-node-runtime as root", path.display())]
    DynamicBusybox {
        /// Which one.
        path: PathBuf,
    },

    /// The namespaces, mounts or control groups could not be made, or were not all taken away.
    #[error("{what} ({status}):\n{said}")]
    Surroundings {
        /// Which of both.
        what: &'static str,
        /// How the keeper ended.
        status: ExitStatus,
        /// What it wrote.
        said: String,
    },

    /// containerd refused something.
    #[error("ctr {command} failed ({status}): {said}")]
    Ctr {
        /// What was asked.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        said: String,
    },

    /// A container that has never run.
    #[error("container {container} of pod {pod} has no id yet; wait until the pod runs")]
    NoContainer {
        /// The pod, with its namespace.
        pod: String,
        /// The container's name.
        container: String,
    },

    /// containerd's description of a container is not what we can read.
    #[error("could not read the OCI spec of container {id}: {source}")]
    Spec {
        /// The container.
        id: String,
        /// What is wrong.
        source: serde_json::Error,
    },

    /// Something else, of the operating system or of the API server.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
}
