//! Finds the built library, for tests of other crates.
//!
//! Cargo builds the `cdylib` of a dependency along with its `rlib`, under a name without a hash, into the folder `deps` of
//! the target directory. There the executables of tests are as well; binaries are one folder above, examples in one beside. So
//! whoever links this crate finds the library from its own path, and it is always of the same build.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tempfile::TempDir;

use crate::machine::{Machine, Unreadable, Written};
use crate::{Node, roots};

/// The name that users of NVML load.
pub const NAME: &str = "libnvidia-ml.so.1";

/// The name that cargo gives it.
const BUILT: &str = "libgpu_scheduler_nvml_mock.so";

/// Why the library cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not where cargo puts it.
    #[error("there is no {BUILT} near {}; whoever looks for it must be built by cargo and depend on this crate", executable.display())]
    NotBuilt {
        /// The executable that looked for it.
        executable: PathBuf,
    },
    /// A file could not be written or read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The library as cargo has built it.
fn built() -> Result<PathBuf, Error> {
    let executable = env::current_exe()?;
    let near = executable.ancestors().skip(1).take(2).flat_map(|folder| [folder.to_owned(), folder.join("deps")]);
    let found = near.map(|folder| folder.join(BUILT)).find(|file| file.is_file());
    found.ok_or(Error::NotBuilt { executable })
}

/// The path of the built library, under the name that users of NVML load. The node is then the one that the variable
/// `NVML_MOCK_NODE` names. Whoever wants several nodes in one process, or no variable, takes an [`Installation`].
///
/// # Errors
///
/// If the executable was not built by cargo along with the library, or the link beside it cannot be made.
pub fn library() -> Result<PathBuf, Error> {
    let built = built()?;
    let folder = crate::files::folder(&built).join("nvml-mock");
    fs::create_dir_all(&folder)?;
    let link = folder.join(NAME);
    if fs::read_link(&link).is_ok_and(|target| target == built) {
        return Ok(link);
    }
    // Tests run at once, so the link is made aside and moved into place.
    let aside = TempDir::new_in(&folder)?;
    let new = aside.path().join(NAME);
    std::os::unix::fs::symlink(&built, &new)?;
    fs::rename(&new, &link)?;
    Ok(link)
}

/// A copy of the library in a folder of its own, with its description beside it. A process can load several: each is a
/// library of its own with a node of its own. The folder is removed with the value; what was loaded from it goes on to work.
#[derive(Debug)]
pub struct Installation {
    folder: TempDir,
}

/// The name under which a library looks for its description beside itself.
const DESCRIPTION: &str = "node.yaml";

impl Installation {
    /// Installs the library with a node.
    ///
    /// # Errors
    ///
    /// If the library is not there, or the folder cannot be written.
    pub fn new(node: &Node) -> Result<Self, Error> {
        let installation = Self { folder: TempDir::with_prefix("nvml-mock-")? };
        // A copy: the loader tells libraries apart by their files, so a link would be the same one again.
        fs::copy(built()?, installation.library())?;
        installation.write(node)?;
        Ok(installation)
    }

    /// The library's path.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// The description's path.
    pub fn description(&self) -> PathBuf {
        self.folder.path().join(DESCRIPTION)
    }

    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Changes the node, in one step.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, node: &Node) -> io::Result<()> {
        node.write(&self.description())
    }

    /// The node as the library sees it, with what calls have changed.
    ///
    /// # Errors
    ///
    /// If the description was overwritten by what is none.
    pub fn machine(&self) -> Result<Machine, Unreadable> {
        Machine::read(&self.description())
    }

    /// Undoes what calls have changed: MIG and compute modes are again as they are described.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub fn reboot(&self) -> io::Result<()> {
        match fs::remove_file(Written::file(&self.description())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the trees of sysfs and procfs that go with the node as it is now: [`roots::write`].
    ///
    /// # Errors
    ///
    /// If the description is none, or a file cannot be written.
    pub fn write_roots(&self, sysfs: &Path, procfs: &Path) -> Result<(), roots::Error> {
        roots::write(&self.machine()?, sysfs, procfs)
    }
}
