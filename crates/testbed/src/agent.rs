//! `gpu-scheduler agent` as a process beside a real node, as its DaemonSet runs it on one.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::control_plane::process::{Program, log_in, spawn};
use crate::control_plane::wait::PATIENCE;
use crate::node::RealNode;

/// Its name, and its log's.
const NAME: &str = "agent";

/// What a node's agent is told of the cards.
#[derive(Debug, Clone)]
pub struct Cards {
    /// NVIDIA's library.
    pub nvml: PathBuf,
    /// sysfs with the cards.
    pub sysfs: PathBuf,
    /// procfs with the processes on them.
    pub procfs: PathBuf,
    /// The folder whose `dev` has their device files.
    pub root: PathBuf,
}

/// A running agent. It is killed when this is dropped or the test is killed; its log is shown if the test fails.
///
/// All methods panic where the process or its files cannot be had: it is for tests.
#[derive(Debug)]
pub struct Agent {
    program: Program,
    log: PathBuf,
    /// How long the log was before.
    begins_at: usize,
    address: SocketAddr,
}

impl Agent {
    /// Starts `binary` for a node, with further arguments and variables, and returns at once. In `folder` it leaves
    /// `agent.log`, of all its runs, and its checkpoint.
    #[must_use]
    pub fn start(
        binary: &Path,
        node: &RealNode,
        cards: &Cards,
        kubeconfig: &Path,
        folder: &Path,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        // Free at this moment; whoever takes it in between makes the agent say so and the test fail.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
        let kubelet = node.kubelet_dir();
        let mut command = Command::new(binary);
        command.args(["agent", "--node-name", node.name(), "--bind-address", &address.to_string()]);
        for (flag, path) in [
            ("--kubeconfig", kubeconfig),
            ("--nvml", &cards.nvml),
            ("--sysfs", &cards.sysfs),
            ("--procfs", &cards.procfs),
            ("--host-root", &cards.root),
            ("--device-plugins", &kubelet.join("device-plugins")),
            ("--pod-resources", &kubelet.join("pod-resources/kubelet.sock")),
            ("--checkpoint", &folder.join("handed-out.json")),
            ("--cdi-dir", &folder.join("cdi")),
        ] {
            command.arg(flag).arg(path);
        }
        command.args(more).envs(variables.iter().copied());
        let log = log_in(folder, NAME);
        let begins_at = std::fs::read_to_string(&log).map_or(0, |text| text.len());
        let program = Program::start_by(spawn, NAME, command, folder).expect("the agent starts");
        Self { program, log, begins_at, address }
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.program.kill();
    }

    /// Asks it to end, and waits; whether it ended well.
    pub async fn stop(mut self) -> bool {
        self.program.ask_to_end();
        self.ended().await
    }

    /// Waits until it has ended; whether it ended well.
    pub async fn ended(&mut self) -> bool {
        self.program.wait().await.expect("a child can be waited for").success()
    }

    /// Waits until it has written this since its start; the agent is to log at the level of it.
    ///
    /// # Panics
    ///
    /// It does not.
    pub fn says(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        let from = self.begins_at;
        while !self.log().get(from..).is_some_and(|log| log.contains(text)) {
            assert!(Instant::now() < deadline, "it does not say {text:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Where it serves health and metrics.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// What it and its predecessors in the folder wrote so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.program.kill();
        if std::thread::panicking() {
            eprintln!("---- {}\n{}", self.log.display(), self.log());
        }
    }
}
