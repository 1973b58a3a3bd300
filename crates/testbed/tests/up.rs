//! The `testbed` binary: it says when it is ready, and leaves nothing behind however it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// A running `testbed up`, ready.
struct Up {
    child: Child,
    /// The lines before `ready`.
    output: Vec<String>,
    /// The processes that it started.
    programs: Vec<(Pid, OwnedFd)>,
}

impl Up {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.arg("up").args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                let programs = children(child.id());
                return Self { child, output, programs };
            }
            output.push(line);
        }
        panic!("never ready ({}): {output:?}", child.wait().unwrap());
    }

    /// What the output says after `name`.
    fn said(&self, name: &str) -> &str {
        let line = self.output.iter().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {:?}", self.output))[name.len()..].trim()
    }

    fn folder(&self) -> PathBuf {
        Path::new(self.said("logs")).parent().unwrap().to_owned()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns when all that it started has ended: a descriptor of a process is readable then.
    fn wait_for_programs(&self) {
        for (_, process) in &self.programs {
            poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // A no-op unless an assertion failed before the end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The children of a process, by all its threads.
fn children(pid: u32) -> Vec<(Pid, OwnedFd)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    let text = lists.collect::<Vec<_>>().join(" ");
    let pids = text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap());
    pids.map(|pid| (pid, pidfd_open(pid, PidfdFlags::empty()).unwrap())).collect()
}

#[test]
fn sigterm_ends_it_well_and_nothing_stays() {
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("config");
    let mut up = Up::start(&["--nodes", "2", "--gpus", "4", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(Path::new(up.said("kubeconfig")), kubeconfig);
    // etcd, the API server, the controller manager, the scheduler, kwok, and the shell that cleans up.
    assert_eq!(up.programs.len(), 6);
    let nodes = Command::new(up.said("kubectl"))
        .args(["get", "nodes", "-L", "nvidia.com/gpu.count", "--no-headers"])
        .env("KUBECONFIG", &kubeconfig)
        .env("HOME", place.path())
        .output()
        .unwrap();
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let rows: Vec<Vec<&str>> = nodes.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "{nodes}");
    for row in rows {
        assert_eq!((row[1], row.last()), ("Ready", Some(&"4")), "{nodes}");
    }

    let folder = up.folder();
    up.send(Signal::TERM);
    assert!(up.child.wait().unwrap().success());
    up.wait_for_programs();
    assert!(!folder.exists() && !kubeconfig.exists());
}

#[test]
fn what_is_killed_is_cleaned_up_after() {
    let mut up = Up::start(&["--nodes", "0", "--no-kube-scheduler"]);
    let folder = up.folder();
    assert!(folder.exists());
    up.send(Signal::KILL);
    up.child.wait().unwrap();
    up.wait_for_programs();
    assert!(!folder.exists());
}

#[test]
fn wrong_use_is_refused_before_anything_starts() {
    let place = tempfile::tempdir().unwrap();
    let foreign = place.path().join("config");
    fs::write(&foreign, "apiVersion: v1\n").unwrap();
    for args in [["--kubernetes", "1.1"], ["--kubeconfig", foreign.to_str().unwrap()], ["--model", "A1000"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_testbed")).arg("up").args(args).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains("error: ") && output.stdout.is_empty(), "{args:?}: {errors}");
    }
}
