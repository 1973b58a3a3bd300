//! The machine's own programs that a node needs.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::NodeError;
use crate::control_plane::ControlPlaneError;

/// Not in the `PATH` of every user, and runc is there.
const FOR_ROOT: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where they are.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) containerd: PathBuf,
    pub(super) ctr: PathBuf,
    pub(super) busybox: PathBuf,
    /// Where containerd finds runc and its shims, and the kubelet what mounts.
    pub(super) path: OsString,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    ///
    /// One is missing, or cannot be used.
    pub(super) fn find() -> Result<Self, NodeError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(FOR_ROOT.map(PathBuf::from));
        let folders: Vec<PathBuf> = folders.filter(|folder| !folder.as_os_str().is_empty()).collect();
        let find = |program: &'static str| {
            let here = folders.iter().map(|folder| folder.join(program)).find(|file| file.is_file());
            here.ok_or(NodeError::NoProgram { program })
        };
        // These are called by others, who would say less clearly that they are missing.
        for program in ["runc", "containerd-shim-runc-v2", "unshare", "mount", "find"] {
            find(program)?;
        }
        let busybox = find("busybox")?;
        if is_dynamic(&busybox)? {
            return Err(NodeError::DynamicBusybox { path: busybox });
        }
        let path = env::join_paths(&folders).expect("no colon comes out of a list that was split at colons");
        Ok(Self { containerd: find("containerd")?, ctr: find("ctr")?, busybox, path })
    }
}

/// Whether a program names a loader, which it does near its start.
fn is_dynamic(program: &Path) -> Result<bool, NodeError> {
    let mut start = Vec::new();
    File::open(program)
        .and_then(|file| file.take(4096).read_to_end(&mut start))
        .map_err(ControlPlaneError::system(format!("could not read {}", program.display())))?;
    Ok([b"/ld-linux".as_slice(), b"/ld-musl"].iter().any(|loader| start.windows(loader.len()).any(|at| at == *loader)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_dynamic() {
        // Test programs are linked dynamically on the systems that we ship for.
        assert!(is_dynamic(&env::current_exe().unwrap()).unwrap());
        assert!(!is_dynamic(Path::new("/proc/self/status")).unwrap());
    }
}
