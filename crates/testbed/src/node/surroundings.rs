//! What a node stands in: namespaces of its own, folders laid over the machine's, control groups, and one folder that holds
//! all that it writes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroU8;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::NodeError;
use crate::control_plane::ControlPlaneError;
use crate::control_plane::folder::temporary;
use crate::control_plane::process::Spawner;

const KEEPER: &str = include_str!("keeper.sh");
const INSIDE: &str = include_str!("inside.sh");

/// The surroundings of one node. They are taken away when this is dropped, with all that runs in them, and also when this
/// process is killed.
///
/// A shell keeps them: it notices our end by its standard input. It waits for the first process inside, which is a shell
/// too and has the same standard input, so that everything inside has ended before the rest is taken away.
///
/// Whoever starts programs inside must have waited for their end before: they are children of this process, and the kernel
/// lets a namespace go only when nobody's end is left to be asked for.
#[derive(Debug)]
pub(super) struct Surroundings {
    folder: PathBuf,
    keeper: Child,
    spawner: Spawner,
}

impl Surroundings {
    /// Makes them. `programs` is the folder of Kubernetes' programs, which are in `bin` of [`folder`](Self::folder) inside;
    /// sysfs has so many NUMA nodes inside, the machine's own where none are said.
    pub(super) fn create(programs: &Path, numa_nodes: Option<NonZeroU8>) -> Result<Self, NodeError> {
        let temporary = temporary("gpu-scheduler-node-")?;
        let folder = temporary.path();
        for name in ["bin", "run", "lib/kubelet", "lib/containerd", "log", "tmp", "cni"] {
            let path = folder.join(name);
            fs::create_dir_all(&path)
                .map_err(ControlPlaneError::system(format!("could not make the folder {}", path.display())))?;
        }
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "node-keeper"])
            .args([folder, programs])
            .arg(INSIDE)
            .arg(numa_nodes.map_or(0, NonZeroU8::get).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on a terminal is for the process that it cleans up after.
            .process_group(0)
            .spawn()
            .map_err(ControlPlaneError::system("could not start sh, which keeps a node's namespaces"))?;
        // From here on the keeper removes it.
        let folder = temporary.keep();

        let mut first = String::new();
        let output = keeper.stdout.take().expect("it was asked for");
        BufReader::new(output)
            .read_line(&mut first)
            .map_err(ControlPlaneError::system("could not read what the keeper of a node's namespaces says"))?;
        // No number: it failed, and says why when asked for its end.
        let spawner = first.trim().parse().map_err(|_| io::ErrorKind::NotFound.into()).and_then(spawner);
        match spawner {
            Ok(spawner) => Ok(Self { folder, keeper, spawner }),
            Err(error) => {
                end(&mut keeper, "could not make a node's namespaces, mounts and control groups")?;
                Err(ControlPlaneError::system("could not look into a node's namespaces")(error).into())
            }
        }
    }

    /// All that the node writes; the same path inside and outside.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its control group below the root of each hierarchy.
    pub(super) fn cgroup(&self) -> String {
        let name = self.folder.file_name().expect("a temporary folder has a name");
        format!("/{}", name.to_str().expect("its prefix and its random part are ASCII"))
    }

    /// Starts a program inside. It dies with the surroundings.
    pub(super) fn spawn(&self, command: Command) -> io::Result<Child> {
        self.spawner.spawn(command)
    }

    /// Takes them away.
    ///
    /// # Errors
    ///
    /// Something is left: what, is in the error.
    pub(super) fn remove(mut self) -> Result<(), NodeError> {
        end(&mut self.keeper, LEFT)
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        // A no-op after `remove`.
        if let Err(error) = end(&mut self.keeper, LEFT) {
            eprintln!("{error}");
        }
    }
}

const LEFT: &str = "a node's folder or control groups are not all gone; remove by hand what is named here";

/// Tells the keeper that its time is over, and waits. `what` failed if it says that something did.
fn end(keeper: &mut Child, what: &'static str) -> Result<(), NodeError> {
    drop(keeper.stdin.take());
    let Some(mut errors) = keeper.stderr.take() else { return Ok(()) };
    let mut said = String::new();
    let failed = || ControlPlaneError::system("could not wait for the keeper of a node's namespaces");
    errors.read_to_string(&mut said).map_err(failed())?;
    let status = keeper.wait().map_err(failed())?;
    if status.success() {
        return Ok(());
    }
    Err(NodeError::Surroundings { what, status, said: said.trim_end().to_owned() })
}

/// What starts programs in the namespaces of a process.
fn spawner(first: u32) -> io::Result<Spawner> {
    let namespace = |name: &str| File::open(format!("/proc/{first}/ns/{name}"));
    let (processes, mounts) = (namespace("pid")?, namespace("mnt")?);
    Ok(Spawner::new(move |command| {
        // Of the thread's children; the thread itself stays where it is, so that we may wait for them.
        move_into_link_name_space(processes.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
        let mounts = mounts.try_clone()?;
        let move_in = move || Ok(move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?);
        #[allow(
            unsafe_code,
            reason = "a namespace of mounts can be entered only by a process of one thread, as between fork and exec"
        )]
        // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes one system call, allocates
        // nothing on the path that goes on to exec, and takes no lock.
        unsafe {
            command.pre_exec(move_in);
        }
        command.spawn()
    }))
}
