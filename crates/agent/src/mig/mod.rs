//! MIG as a node's label wants it, in place of NVIDIA's MIG manager: `nvidia.com/mig.config` names a configuration of
//! mig-parted's file, or a standard one, and the cards are cut like it when they are idle.
//!
//! A plan is made before anything is touched, with every place said. A change that fails half-way is taken
//! back from however the card is then; one that is interrupted is found in the [journal](Journal) at the next
//! start. Nothing is called success that was not read back from the card. `docs/agent-mig.md` is for operators.

mod attempt;
mod change;
mod choose;
mod file;
mod fit;
mod follow;
mod idle;
mod journal;
mod layout;
mod name;
mod options;
mod plan;
mod run_steps;
mod state;
mod wanted;
mod writer;

pub use file::MigFile;
pub use follow::Follower;
pub use journal::Journal;
pub use options::Options;
pub use state::{MigState, MigStatus};
pub use writer::STATE_LABEL;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::warn;

use crate::checkpoint::CheckpointError;
use crate::config::{read_label_named, watch_label_named};
use crate::folder::FolderError;
use crate::handout::Claim;

/// The label that chooses a configuration.
pub const CONFIG_LABEL: &str = "nvidia.com/mig.config";

/// How long to wait before the label is asked for again, if the API server does not tell.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Why MIG's configuration cannot be followed.
#[derive(Debug, Error)]
pub enum MigError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] CheckpointError),
    /// The folder of the file cannot be watched.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Cuts the node's cards as its label wants them, and says on the node what became of it, until `stop`. A change that has
/// begun is ended before it returns.
///
/// `held` tells which devices containers have now: cards with any of them are not touched. `changed` is notified whenever
/// cards were touched, so that they are looked at again at once.
///
/// # Errors
/// [`MigError`] if it cannot begin.
pub async fn run(
    options: Options,
    client: Client,
    held: impl Fn() -> Claim + Send + Sync + 'static,
    changed: Arc<Notify>,
    stop: impl Future<Output = ()>,
) -> Result<(), MigError> {
    let journal = Journal::open(&options.journal)?;
    let node = options.node.clone();
    let follower = Follower::new(options, journal, held, changed);
    let mut stop = std::pin::pin!(stop);
    let first = tokio::select! {
        () = &mut stop => return Ok(()),
        label = first_label(&client, &node) => label,
    };
    let (sender, label) = watch::channel(first);
    let status = follower.status();
    let mut around = JoinSet::new();
    {
        let (client, node) = (client.clone(), node.clone());
        around.spawn(async move { watch_label_named(client, &node, CONFIG_LABEL, sender).await });
    }
    around.spawn(async move { writer::write(client, &node, status).await });
    Ok(follower.follow(label, stop).await?)
}

/// The label as it is when the agent starts: until it is known, nothing is said of the node.
async fn first_label(client: &Client, node: &str) -> Option<String> {
    loop {
        match read_label_named(client, node, CONFIG_LABEL).await {
            Ok(label) => return label,
            Err(error) => warn!(%error, "the label {CONFIG_LABEL} of this node cannot be read; it is tried again"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests;
