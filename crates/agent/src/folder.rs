//! Changes in a folder of the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use thiserror::Error;
use tokio::sync::Notify;

/// A folder that cannot be watched.
#[derive(Debug, Error)]
#[error("cannot watch the folder {}: {source}; see that it is there and mounted", path.display())]
pub struct FolderError {
    path: PathBuf,
    source: notify::Error,
}

/// Tells that something in a folder may have changed. It says that there is a reason to look, never what was seen, so
/// events that fall together or get lost do no harm: a look comes after a while anyway.
pub struct Folder {
    changed: Arc<Notify>,
    /// Watches for as long as it lives.
    _watcher: RecommendedWatcher,
    anyway: Duration,
}

impl Folder {
    /// Watches what is directly in `path`; without any event there is a reason to look after `anyway`.
    ///
    /// # Errors
    /// If the folder is not there, or the kernel has no watch left.
    pub fn watch(path: &Path, anyway: Duration) -> Result<Self, FolderError> {
        let changed = Arc::new(Notify::new());
        let teller = Arc::clone(&changed);
        let fail = |source| FolderError { path: path.to_owned(), source };
        let tell = move |event: notify::Result<notify::Event>| {
            // Whoever looks also opens what is there: that alone is no reason to look again.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                teller.notify_one();
            }
        };
        let mut watcher = notify::recommended_watcher(tell).map_err(fail)?;
        watcher.watch(path, RecursiveMode::NonRecursive).map_err(fail)?;
        Ok(Self { changed, _watcher: watcher, anyway })
    }

    /// Waits for a reason to look.
    pub async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = tokio::time::sleep(self.anyway) => {}
        }
    }
}
