//! Where the configuration comes from, and following it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_cluster::config::ConfigError as FileError;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::file::Layer;
use super::problem::ConfigError;
use super::select::{Choice, Fallback, select};
use super::{Config, Read};
use crate::folder::{Folder, FolderError};

/// How long a change may go unnoticed where the kernel does not tell of it.
const ANYWAY: Duration = Duration::from_secs(60);

/// Which files there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFiles {
    /// None.
    None,
    /// One, for every node.
    One(PathBuf),
    /// A folder (a mounted ConfigMap) from which the node's label chooses.
    Folder {
        /// The folder.
        path: PathBuf,
        /// The file of nodes without the label.
        default: Option<String>,
        /// What is tried without either.
        fallbacks: Vec<Fallback>,
    },
}

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    /// The files.
    pub files: ConfigFiles,
    /// What the environment says; it counts before the file.
    pub environment: Layer,
    /// What the command line says; it counts before both.
    pub command_line: Layer,
}

impl ConfigSource {
    /// What is in effect on a node with this label.
    ///
    /// # Errors
    /// If no file is to be had for it, or what was said makes no sense.
    pub fn read(&self, label: Option<&str>) -> Result<Read, ConfigError> {
        let path = match &self.files {
            ConfigFiles::None => None,
            ConfigFiles::One(path) => Some(path.clone()),
            ConfigFiles::Folder { path, default, fallbacks } => {
                let known = names(path).map_err(|source| FileError::Io { path: path.clone(), source })?;
                match select(label, default.as_deref(), &known, fallbacks)? {
                    Choice::File(name) => Some(path.join(name)),
                    Choice::Nothing => None,
                }
            }
        };
        let (file, mut warnings) = path.as_deref().map(Layer::load).transpose()?.unwrap_or_default();
        let all = file.overlaid_by(self.environment.clone()).overlaid_by(self.command_line.clone());
        let mut read = all.settle().map_err(|problem| problem.in_file(path.as_deref()))?;
        warnings.extend(read.warnings.into_iter().map(|problem| problem.in_file(path.as_deref())));
        read.warnings = warnings;
        Ok(read)
    }

    /// Sends what is in effect whenever the label or the files change it, until nobody listens. What cannot be read is
    /// said, and leaves in effect what was.
    ///
    /// # Errors
    /// If the folder of the files cannot be watched.
    pub async fn follow(
        self,
        mut label: watch::Receiver<Option<String>>,
        config: watch::Sender<Arc<Config>>,
    ) -> Result<(), FolderError> {
        let folder = match &self.files {
            ConfigFiles::None => None,
            ConfigFiles::One(path) => path.parent(),
            ConfigFiles::Folder { path, .. } => Some(path.as_path()),
        };
        let folder = folder.map(|path| Folder::watch(path, ANYWAY)).transpose()?;
        let mut said = None;
        loop {
            let now = label.borrow_and_update().clone();
            match self.read(now.as_deref()) {
                Ok(read) => {
                    said = None;
                    let changed = config.send_if_modified(|config| {
                        let changed = **config != read.config;
                        if changed {
                            *config = Arc::new(read.config);
                        }
                        changed
                    });
                    if changed {
                        info!("another configuration is in effect");
                        read.warnings.iter().for_each(|warning| warn!("{warning}"));
                    }
                }
                Err(problem) => {
                    let text = problem.to_string();
                    if said.as_ref() != Some(&text) {
                        error!("the configuration stays as it was: {text}");
                    }
                    said = Some(text);
                }
            }
            let look = async {
                match &folder {
                    Some(folder) => folder.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = look => {}
                changed = label.changed() => if changed.is_err() { return Ok(()) },
                () = config.closed() => return Ok(()),
            }
        }
    }
}

/// The files of a mounted ConfigMap; names that begin with two dots are the mount's own.
fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with("..") && entry.path().is_file() {
            names.insert(name);
        }
    }
    Ok(names)
}
