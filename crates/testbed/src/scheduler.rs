//! `gpu-scheduler run` as a process, as users run it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::control_plane::process::{spawn, until_ended};

/// A running scheduler. It is killed when this is dropped or the test is killed; its log is shown if the test fails.
///
/// All methods panic where the process or its files cannot be had: it is for tests.
#[derive(Debug)]
pub struct Scheduler {
    child: Child,
    log: PathBuf,
    address: SocketAddr,
}

impl Scheduler {
    /// Starts `binary` with a kubeconfig and a configuration, and returns at once. In `folder` it leaves `NAME.log` and
    /// `NAME.journal`.
    #[must_use]
    pub fn start(binary: &Path, name: &str, kubeconfig: &Path, config: &Path, folder: &Path) -> Self {
        Self::start_in(binary, name, kubeconfig, config, folder, &[])
    }

    /// The same with further variables in its environment.
    #[must_use]
    pub fn start_in(
        binary: &Path,
        name: &str,
        kubeconfig: &Path,
        config: &Path,
        folder: &Path,
        environment: &[(&str, String)],
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        // Free at this moment; whoever takes it in between makes the scheduler say so and the test fail.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
        let mut command = Command::new(binary);
        command
            .args(["run", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--config")
            .arg(config)
            .args(["--bind-address", &address.to_string(), "--journal"])
            .arg(folder.join(format!("{name}.journal")))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"));
        let child = spawn(command).expect("the scheduler starts");
        Self { child, log, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child lives");
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it has ended");
    }

    /// Stops it where it is, as a machine that hangs.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end, and waits; whether it ended well.
    #[must_use]
    pub fn stop(mut self) -> bool {
        self.signal(Signal::TERM);
        self.child.wait().expect("it has ended").success()
    }

    /// Waits until it ends by itself.
    pub async fn ended(&self) {
        until_ended(&self.child).await.expect("a child can be waited for");
    }

    /// Where it serves health and metrics.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- {}\n{}", self.log.display(), self.log());
        }
    }
}

/// What schedulers left in a folder: none has asked for what its account may not do, and [`check_journals`].
///
/// # Panics
///
/// It is not so.
pub fn check_traces(binary: &Path, folder: &Path) {
    for path in left_in(folder, "log") {
        let log = fs::read_to_string(&path).expect("a log");
        let forbidden: Vec<&str> = log.lines().filter(|line| line.contains("is forbidden: User ")).collect();
        assert!(forbidden.is_empty(), "deploy/20-rbac.yaml lacks a right:\n{}", forbidden.join("\n"));
    }
    check_journals(binary, folder);
}

/// Every journal in a folder, even of a scheduler that still runs or was killed, replays to the letter. Alone where an API
/// server was restarted: it forbids everything until it has read its roles.
///
/// # Panics
///
/// It is not so.
pub fn check_journals(binary: &Path, folder: &Path) {
    left_in(folder, "journal").for_each(|journal| replays(binary, &journal));
}

fn left_in(folder: &Path, extension: &str) -> impl Iterator<Item = PathBuf> {
    let paths = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    paths.filter(move |path| path.extension().and_then(OsStr::to_str) == Some(extension))
}

fn replays(binary: &Path, journal: &Path) {
    if fs::read_dir(journal).is_ok_and(|mut files| files.next().is_none()) {
        return; // it never led for long enough to see anything
    }
    let replay = Command::new(binary).arg("replay").arg(journal).output().expect("the command runs");
    let said = format!("{}{}", String::from_utf8_lossy(&replay.stdout), String::from_utf8_lossy(&replay.stderr));
    assert!(replay.status.success(), "{}: {said}", journal.display());
}
