//! Follows the label: whenever it, the file or what was in the way changes, the cards are made as it wants them.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::{error, info};

use super::attempt::{Again, Outcome, Setting, attempt};
use super::change::Means;
use super::journal::Journal;
use super::options::Options;
use super::state::{MigState, MigStatus};
use crate::folder::{Folder, FolderError};
use crate::handout::Claim;

/// How long a change of the file may go unnoticed where the kernel does not tell of it.
const ANYWAY: Duration = Duration::from_secs(60);

/// Tells which devices containers have.
pub(super) type SharedHeld = Arc<dyn Fn() -> Claim + Send + Sync>;

/// Makes the cards of a node as its label wants them.
pub struct Follower {
    options: Options,
    held: SharedHeld,
    changed: Arc<Notify>,
    journal: Journal,
    status: watch::Sender<Option<MigStatus>>,
}

impl Follower {
    /// A follower that has done nothing yet. `changed` is notified whenever cards were touched.
    pub fn new(
        options: Options,
        journal: Journal,
        held: impl Fn() -> Claim + Send + Sync + 'static,
        changed: Arc<Notify>,
    ) -> Self {
        Self { options, held: Arc::new(held), changed, journal, status: watch::Sender::new(None) }
    }

    /// What is to be said of the node; `None` as long as it has no label.
    pub fn status(&self) -> watch::Receiver<Option<MigStatus>> {
        self.status.subscribe()
    }

    /// Follows until `stop`. A change that has begun is ended first.
    ///
    /// # Errors
    /// If the folder of the file cannot be watched.
    pub async fn follow(
        mut self,
        mut label: watch::Receiver<Option<String>>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), FolderError> {
        let parent = self.options.file.as_deref().and_then(Path::parent);
        let folder = parent.map(|path| Folder::watch(path, ANYWAY)).transpose()?;
        let mut stop = std::pin::pin!(stop);
        let mut again = Again::All;
        // Whether something else is wanted than the last time.
        let mut fresh = true;
        loop {
            let now = label.borrow_and_update().clone();
            let text = self.text();
            let outcome;
            (self, outcome) = self.attempt(now, again, fresh).await;
            again = outcome.again;
            let file = async {
                match &folder {
                    // The same text would lead to the same end.
                    Some(folder) => {
                        while self.text() == text {
                            folder.changed().await;
                        }
                    }
                    None => std::future::pending().await,
                }
            };
            let retry = async {
                match again {
                    Again::Never => std::future::pending().await,
                    Again::Recover | Again::All => tokio::time::sleep(self.options.retry_every).await,
                }
            };
            tokio::select! {
                () = &mut stop => return Ok(()),
                changed = label.changed() => match changed {
                    Ok(()) => (again, fresh) = (Again::All, true),
                    Err(_) => return Ok(()),
                },
                () = file => (again, fresh) = (Again::All, true),
                () = retry => fresh = false,
            }
        }
    }

    /// The file as it is now.
    fn text(&self) -> Option<Vec<u8>> {
        std::fs::read(self.options.file.as_deref()?).ok()
    }

    /// Tries once, on a thread where it may block.
    async fn attempt(mut self, label: Option<String>, again: Again, fresh: bool) -> (Self, Outcome) {
        let blocking = tokio::task::spawn_blocking(move || {
            let outcome = self.attempt_blocking(label.as_deref(), again, fresh);
            (self, outcome)
        });
        match blocking.await {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn attempt_blocking(&mut self, label: Option<&str>, again: Again, fresh: bool) -> Outcome {
        let Self { options, held, changed, journal, status } = self;
        let before = status.borrow().clone();
        // Whoever waits for what was said the last time is not to see it come and go with every new try.
        let said = !fresh && before.as_ref().is_some_and(|status| status.state != MigState::Success);
        let begins = || {
            if label.is_some() && !said {
                tell(status, Some(MigStatus::plain(MigState::Pending)));
            }
        };
        let ends = || changed.notify_one();
        let mut means = Means { held: &**held, begins: &begins, ends: &ends, journal };
        let setting =
            Setting { nvml_path: &options.nvml_path, file: options.file.as_deref(), reboots: options.reboots };
        // What failed for good is not tried again because something else is to be put back.
        let only_recover = again == Again::Recover;
        let outcome = attempt(label, again, &setting, &mut means);
        tell(status, if only_recover { outcome.status.clone().or(before) } else { outcome.status.clone() });
        outcome
    }
}

/// Tells what is to be said, and the log.
fn tell(status: &watch::Sender<Option<MigStatus>>, now: Option<MigStatus>) {
    status.send_if_modified(|known| {
        if *known == now {
            return false;
        }
        match &now {
            Some(MigStatus { state, reason: Some(reason) }) => error!(%state, "MIG: {reason}"),
            Some(MigStatus { state, reason: None }) => info!(%state, "MIG"),
            None => {}
        }
        known.clone_from(&now);
        true
    });
}
