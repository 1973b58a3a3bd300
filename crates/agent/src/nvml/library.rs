//! NVIDIA's management library, opened by path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use thiserror::Error;

use super::raw;
use crate::inventory::{GpuUuid, Placement};

/// Where it is looked for if nobody says: wherever the loader finds it.
pub const DEFAULT_PATH: &str = "libnvidia-ml.so.1";

/// The library, open and initialised. A clone is another handle on the same one.
#[derive(Debug, Clone)]
pub struct Library {
    nvml: Arc<Nvml>,
}

/// The library cannot be used.
#[derive(Debug, Error)]
#[error("cannot use NVML at {}: {why}; {advice}", path.display())]
pub struct LibraryError {
    path: PathBuf,
    why: String,
    advice: &'static str,
}

impl Library {
    /// Opens the library at `path` and initialises it.
    ///
    /// # Errors
    /// [`LibraryError`] if there is none, or if it finds no driver.
    pub fn open(path: &Path) -> Result<Self, LibraryError> {
        let file = OsString::from(path);
        match Nvml::builder().lib_path(&file).init() {
            Ok(nvml) => Ok(Self { nvml: Arc::new(nvml) }),
            Err(error) => Err(LibraryError {
                path: path.to_owned(),
                why: error.to_string(),
                advice: match error {
                    NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                        "give --nvml-path if the driver's libraries lie elsewhere; in a container they are mounted by \
                         NVIDIA's runtime"
                    }
                    NvmlError::DriverNotLoaded => "load the driver (modprobe nvidia); it is tried again",
                    NvmlError::LibRmVersionMismatch => {
                        "the library and the loaded driver are of different versions: reboot, or load the new driver"
                    }
                    _ => "nvidia-smi on the node may say more",
                },
            }),
        }
    }

    /// Where GPU instances of a profile may lie on a card. The profile is named by the id that its instances have.
    ///
    /// # Errors
    /// NVML's; it wants privilege for the answer.
    pub fn possible_placements(&self, card: &GpuUuid, profile_id: u32) -> Result<Vec<Placement>, NvmlError> {
        raw::possible_placements(&self.nvml.device_by_uuid(card.as_str())?, profile_id)
    }

    pub(super) fn nvml(&self) -> &Nvml {
        &self.nvml
    }

    pub(super) fn shared(&self) -> Arc<Nvml> {
        self.nvml.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_says_where_it_was_sought() {
        let error = Library::open(Path::new("/nowhere/libnvidia-ml.so.1")).expect_err("no library").to_string();
        assert!(error.starts_with("cannot use NVML at /nowhere/libnvidia-ml.so.1: "), "{error}");
        assert!(error.contains("--nvml-path"), "{error}");
    }
}
