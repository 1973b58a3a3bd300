//! Where the node comes from: the description's file and what was changed since.

use std::ffi::{CStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use crate::machine::{Machine, Written};

/// The variable that names the description's file.
const VARIABLE: &str = "NVML_MOCK_NODE";

/// The file beside the library that is read if the variable is not set.
const BESIDE: &str = "node.yaml";

/// A description's file, and what was last found in it.
pub(super) struct Source {
    file: PathBuf,
    seen: Option<Seen>,
}

/// What the two files said. It is compared as a whole: a time of change is too coarse for two changes in a row.
#[derive(PartialEq)]
struct Seen {
    description: Result<String, String>,
    written: Result<Option<String>, String>,
}

impl Seen {
    fn machine(&self) -> Result<Machine, String> {
        let node = crate::describe::Node::parse(self.description.as_ref().map_err(Clone::clone)?);
        let written = self.written.as_ref().map_err(Clone::clone)?.as_deref().unwrap_or_default();
        let written = Written::parse(written).map_err(|error| format!("its state: {error}"))?;
        node.and_then(|node| Machine::new(node, &written)).map_err(|error| error.to_string())
    }
}

impl Source {
    /// The file that the variable names, or the one beside the library.
    pub fn find() -> Option<Self> {
        let file = match env::var_os(VARIABLE) {
            Some(file) => PathBuf::from(file),
            None => crate::files::folder(&own_path()?).join(BESIDE),
        };
        Some(Self { file, seen: None })
    }

    /// The description's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The folder that both files are in.
    pub fn folder(&self) -> &Path {
        crate::files::folder(&self.file)
    }

    /// The node, if it is another than at the last time. What cannot be read is said once, and the node stays as it was.
    pub fn read(&mut self) -> Option<Arc<Machine>> {
        let written = crate::machine::read_if_there(&Written::file(&self.file));
        let seen = Seen {
            description: fs::read_to_string(&self.file).map_err(|error| error.to_string()),
            written: written.map_err(|error| format!("its state: {error}")),
        };
        if self.seen.as_ref() == Some(&seen) {
            return None;
        }
        let machine = seen.machine();
        self.seen = Some(seen);
        match machine {
            Ok(machine) => Some(Arc::new(machine)),
            Err(error) => {
                eprintln!("nvml-mock: {}: {error}; the node stays as it was", self.file.display());
                None
            }
        }
    }
}

/// The path that this library was loaded from.
#[expect(unsafe_code, reason = "only the dynamic loader knows where a library was loaded from")]
fn own_path() -> Option<PathBuf> {
    let address: fn() -> Option<PathBuf> = own_path;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr takes any address and fills the structure in if it answers with other than 0.
    let info = unsafe {
        if libc::dladdr(address as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a library ends with a zero and lives as long as the library does.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
