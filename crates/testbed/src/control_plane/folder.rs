//! The folder of one control plane: data, keys and logs, all of it gone at the end.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::ControlPlaneError;

/// Memory instead of a disk: etcd writes every change twice.
const MEMORY: &str = "/dev/shm";
/// Containers often have 64 MB there, which etcd would fill.
const ENOUGH: u64 = 2 << 30;

/// A temporary folder that is removed when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub(super) struct Folder {
    // `None` only while being dropped.
    folder: Option<TempDir>,
    cleaner: Child,
}

impl Folder {
    /// Creates it, in memory if there is room.
    pub(super) fn create() -> Result<Self, ControlPlaneError> {
        let folder = temporary("gpu-scheduler-testbed-")?;
        let cleaner = start_cleaner(folder.path())
            .map_err(ControlPlaneError::system("could not start sh, which cleans up should this process be killed"))?;
        Ok(Self { folder: Some(folder), cleaner })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.as_ref().expect("it is there until dropped").path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.folder.take());
        // Closes its standard input, which it waits for, and waits for its end.
        let _ = self.cleaner.wait();
    }
}

/// A folder that only its owner looks into, in memory if there is room: keys and tokens are in there, below a folder that
/// all can read.
pub(crate) fn temporary(prefix: &str) -> Result<TempDir, ControlPlaneError> {
    let parent = parent();
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .map_err(ControlPlaneError::system(format!("could not make a folder in {}", parent.display())))
}

/// A shell that waits until the other end of its standard input is closed, which the kernel does for us when we
/// are killed, and then removes the folder.
///
/// The programs die at the same moment and may still write, so it tries until the folder is gone. It has a process
/// group of its own: Ctrl-C on a terminal is for the process that it cleans up after.
fn start_cleaner(folder: &Path) -> std::io::Result<Child> {
    const SCRIPT: &str = r#"read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" && exit; sleep 0.1; done"#;
    Command::new("sh")
        .args(["-c", SCRIPT, "testbed-cleaner"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn parent() -> PathBuf {
    let room = rustix::fs::statvfs(MEMORY).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    if room >= ENOUGH { PathBuf::from(MEMORY) } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_looks_into_the_folder() {
        let folder = Folder::create().unwrap();
        let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_dropped_folder_is_gone_with_its_cleaner() {
        let folder = Folder::create().unwrap();
        let (path, cleaner) = (folder.path().to_owned(), PathBuf::from(format!("/proc/{}", folder.cleaner.id())));
        std::fs::write(path.join("file"), "text").unwrap();
        assert!(cleaner.exists());
        drop(folder);
        assert!(!path.exists() && !cleaner.exists());
    }

    #[test]
    fn the_cleaner_removes_the_folder_when_its_owner_is_gone() {
        let mut folder = Folder::create().unwrap();
        let path = folder.path().to_owned();
        // What the kernel does with our end of the pipe when we are killed.
        drop(folder.cleaner.stdin.take());
        folder.cleaner.wait().unwrap();
        assert!(!path.exists());
    }
}
