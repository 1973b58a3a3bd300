//! The process, and a way to an API server that is not there.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use gpu_scheduler_testbed::control_plane::wait::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// An address where nobody listens.
pub fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// A folder with a kubeconfig whose API server is not there, and with a configuration that goes on as `more` says.
pub fn folder(more: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "apiVersion: gpu-scheduler.io/v1alpha1\nkind: SchedulerConfiguration\n\
                  leaderElection: {leaderElect: false}\nbindAddress: 127.0.0.1:0\n";
    std::fs::write(folder.path().join("config.yaml"), format!("{config}{more}")).expect("a configuration");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
        nobody()
    );
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig).expect("a kubeconfig");
    folder
}

/// A scheduler that runs until it is asked to end, or is dropped.
pub struct Process {
    child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    log: String,
}

impl Process {
    /// Starts one on a folder's files, with further arguments.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpu-scheduler"))
            .arg("run")
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .arg("--config")
            .arg(folder.join("config.yaml"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let stderr = child.stderr.take().expect("it is piped");
        Self { child, stderr: BufReader::new(stderr).lines(), log: String::new() }
    }

    /// Waits until it listens and heeds signals; where it listens.
    pub async fn address(&mut self) -> SocketAddr {
        let line = self.says("gpu-scheduler starts").await;
        let (_, rest) = line.split_once("address=").expect("it says its address");
        rest.split(' ').next().and_then(|text| text.parse().ok()).expect("an address")
    }

    /// Waits for a line with these words.
    pub async fn says(&mut self, words: &str) -> String {
        let found = async {
            while let Some(line) = self.stderr.next_line().await.expect("it writes text") {
                self.log += &format!("{line}\n");
                if line.contains(words) {
                    return Some(line);
                }
            }
            None
        };
        let found = timeout(PATIENCE, found).await.ok().flatten();
        found.unwrap_or_else(|| panic!("it never said {words:?}:\n{}", self.log))
    }

    /// Asks it to end, and waits: how it ended, and all that it said.
    pub async fn stop(self) -> (ExitStatus, String) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("it lives"), Signal::TERM).expect("it lives");
        self.ended().await
    }

    /// Waits until it has ended by itself: how, and all that it said.
    pub async fn ended(mut self) -> (ExitStatus, String) {
        let rest = async {
            while let Some(line) = self.stderr.next_line().await.expect("it writes text") {
                self.log += &format!("{line}\n");
            }
            self.child.wait().await.expect("it has ended")
        };
        let status = timeout(PATIENCE, rest).await.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log));
        (status, self.log)
    }
}
