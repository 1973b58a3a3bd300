//! A program of the control plane: started, watched, and gone when we are.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
    waitid,
};

use super::ControlPlaneError;

/// How much of a log goes into an error.
const LOG_LINES: usize = 20;

/// A running program. Dropping it kills it.
///
/// It is always killed, never asked to stop: what it knows is thrown away with it, and the API server would wait
/// for its watchers.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `binary`; standard output and error go to `NAME.log` in `folder`, after what is there.
    pub(crate) fn start(
        name: &'static str,
        binary: &Path,
        args: impl IntoIterator<Item = String>,
        folder: &Path,
    ) -> Result<Self, ControlPlaneError> {
        let mut command = Command::new(binary);
        command.args(args);
        Self::start_by(spawn, name, command, folder)
    }

    /// The same for a command that says more than arguments, by another way to start it than [`spawn`].
    pub(crate) fn start_by(
        spawn: impl FnOnce(Command) -> io::Result<Child>,
        name: &'static str,
        mut command: Command,
        folder: &Path,
    ) -> Result<Self, ControlPlaneError> {
        let log = log_in(folder, name);
        let open = || -> io::Result<(File, File)> {
            let file = OpenOptions::new().create(true).append(true).open(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (out, err) = open().map_err(ControlPlaneError::system(format!("could not write {}", log.display())))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        // kwok and kubectl keep files below HOME, and nothing of ours may stay behind there.
        command.current_dir(folder).env("HOME", folder);
        // Ctrl-C on a terminal is for us: we stop the programs, in order.
        command.process_group(0);
        let what = format!("could not start {name}, {}", Path::new(command.get_program()).display());
        let child = spawn(command).map_err(ControlPlaneError::system(what))?;
        Ok(Self { name, child, log })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), ControlPlaneError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ControlPlaneError::Exited { program: self.name, status, log: self.end_of_log() }),
            Err(error) => Err(ControlPlaneError::system(format!("could not ask for {}", self.name))(error)),
        }
    }

    /// Waits until it ends by itself. Dropping the future leaves it running.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, ControlPlaneError> {
        let failed = || ControlPlaneError::system(format!("could not wait for {}", self.name));
        until_ended(&self.child).await.map_err(failed())?;
        self.child.wait().map_err(failed())
    }

    /// Asks it to end by itself, for programs that behave otherwise when asked than when killed.
    pub(crate) fn ask_to_end(&self) {
        // Fails only for a child that has ended.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Kills it and waits until it is gone; a no-op on one that is.
    pub(crate) fn kill(&mut self) {
        // Both fail only for a child that was already waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn end_of_log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns when a child has ended, and leaves it to be waited for: the kernel tells only one waiter how it ended.
pub(crate) async fn until_ended(child: &Child) -> io::Result<()> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    // The thread ends with the child, which is killed when its owner is dropped, if not before.
    let ended = move || waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    tokio::task::spawn_blocking(ended).await??;
    Ok(())
}

/// Where a program below `folder` writes to.
pub(crate) fn log_in(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Starts a child that is killed when this process ends, however it ends.
pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<Spawner> = LazyLock::new(|| Spawner::new(|command| command.spawn()));

    let us = rustix::process::getpid();
    let die_with_us = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Dead before we could say so: nobody would send the signal any more.
        if getppid() != Some(us) {
            return Err(io::Error::other("the parent is gone"));
        }
        Ok(())
    };
    #[allow(unsafe_code, reason = "std has no safe way to say it, and no safe crate wraps it")]
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes two system calls,
    // allocates nothing on the path that goes on to exec, and takes no lock.
    unsafe {
        command.pre_exec(die_with_us);
    }
    SPAWNER.spawn(command)
}

type Job = (Command, mpsc::SyncSender<io::Result<Child>>);

/// A thread that starts programs.
///
/// Linux ties to the *thread* that starts a child what the child is born with: the signal at its parent's end, and the
/// namespace of processes. A test's thread ends before the process does, and must not be moved into a namespace, so
/// programs are started by a thread that does nothing else.
#[derive(Debug)]
pub(crate) struct Spawner(mpsc::Sender<Job>);

impl Spawner {
    /// `start` runs on the thread, which ends when this is dropped.
    pub(crate) fn new(start: impl Fn(&mut Command) -> io::Result<Child> + Send + 'static) -> Self {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, answer) in queue {
                // The receiver waits below until we answer.
                let _ = answer.send(start(&mut command));
            }
        });
        Self(jobs)
    }

    /// Starts a program.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        let (answer, child) = mpsc::sync_channel(1);
        self.0.send((command, answer)).map_err(|_| io::Error::other("the thread that starts programs is gone"))?;
        child.recv().map_err(|_| io::Error::other("the thread that starts programs is gone"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_program_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start("sleep", Path::new("/bin/sleep"), ["1000".to_owned()], folder.path()).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", program.pid()));
        assert!(proc.exists());
        drop(program);
        assert!(!proc.exists());
    }

    #[test]
    fn a_program_outlives_the_thread_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let start = move || Program::start("sleep", Path::new("/bin/sleep"), ["1000".to_owned()], &path);
        let mut program = thread::spawn(start).join().unwrap().unwrap();
        program.check().unwrap();
    }

    #[tokio::test]
    async fn its_end_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let args = ["-c", "exit 3"].map(str::to_owned);
        let mut program = Program::start("sh", Path::new("/bin/sh"), args, folder.path()).unwrap();
        assert_eq!(program.wait().await.unwrap().code(), Some(3));
    }

    #[test]
    fn one_that_ends_says_how_and_shows_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let args = ["-c", "echo no such flag; exit 3"].map(str::to_owned);
        let mut program = Program::start("sh", Path::new("/bin/sh"), args, folder.path()).unwrap();
        program.child.wait().unwrap();
        let error = program.check().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such flag"), "{error}");
    }
}
