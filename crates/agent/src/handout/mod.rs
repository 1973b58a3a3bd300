//! All that hands out devices, tied together.
//!
//! ```text
//! seen (cards, health) ─┐                        ┌─ plugin: kubelet asks which ids, and for them
//! configuration ────────┼─▶ stand ─▶ desk ◀──────┤
//! pods of this node ────┘             │          └─ podresources: who has what, now and then
//!                                     ├─▶ checkpoint
//!                                     └─▶ reports: log, counter, events on pods
//! ```

mod desk;
mod hands;
mod options;
mod stand;

pub use desk::Desk;
pub use hands::{Claim, Hands};
pub use options::Options;
pub use stand::Stand;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::checkpoint::CheckpointError;
use crate::config::{Config, ConfigError, ConfigFiles, read_label, watch_label};
use crate::folder::FolderError;
use crate::inventory::Seen;
use crate::plugin::{self, Places, kubelet_socket};
use crate::pods::{self, NodePod};
use crate::report::{Reports, Teller};
use crate::resources::OfferError;
use crate::sharing::mps;

/// Why devices cannot be handed out.
#[derive(Debug, Error)]
pub enum HandoutError {
    /// There is no configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node's label is not known.
    #[error("cannot read the labels of node {node}: {source}; see that the agent may get nodes, and that it is one")]
    Label {
        /// The node.
        node: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The configuration does not fit the cards.
    #[error("this node's cards cannot be offered: {0}")]
    Offer(#[from] OfferError),
    /// What was handed out is not known, and could not be kept.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A folder is missing.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// What hands out a node's devices, before it runs.
pub struct Handout {
    options: Options,
    inputs: Inputs,
    reports: Reports,
    /// Where reports come out; taken by whoever writes events.
    teller: Option<Teller>,
    hands: Hands,
    /// What fills the inputs.
    feeding: JoinSet<()>,
}

/// What the answers depend on and others know.
struct Inputs {
    seen: watch::Receiver<Arc<Seen>>,
    pods: watch::Receiver<Arc<Vec<NodePod>>>,
    config: watch::Receiver<Arc<Config>>,
}

impl Handout {
    /// Reads the configuration, and follows it, the node's label and its pods from then on.
    ///
    /// # Errors
    /// If there is no configuration, or it depends on the node's label and the API server does not tell it.
    pub async fn new(options: Options, client: Client, seen: watch::Receiver<Arc<Seen>>) -> Result<Self, HandoutError> {
        let label = match options.config.files {
            ConfigFiles::Folder { .. } => read_label(&client, &options.node)
                .await
                .map_err(|source| HandoutError::Label { node: options.node.clone(), source: Box::new(source) })?,
            ConfigFiles::None | ConfigFiles::One(_) => None,
        };
        let (pod_sender, pods) = watch::channel(Arc::default());
        let mut handout = Self::labelled(options, seen, pods, label.as_deref())?;
        let (label_sender, labels) = watch::channel(label);
        let node = handout.options.node.clone();
        let tasks = &mut handout.feeding;
        let (reports, teller) = (handout.reports.clone(), handout.teller.take());
        tasks.spawn({
            let (client, node) = (client.clone(), node.clone());
            async move { pods::watch(client, &node, pod_sender, reports).await }
        });
        tasks.spawn({
            let (client, node) = (client.clone(), node.clone());
            async move { watch_label(client, &node, label_sender).await }
        });
        if let Some(teller) = teller {
            tasks.spawn(async move { teller.write_events(client, &node).await });
        }
        handout.follow_config(labels);
        Ok(handout)
    }

    /// As [`Handout::new`], for whoever knows the pods without an API server. They count as known from the first value that
    /// this receiver has not seen. Reports go to the log and the counter, and to whoever takes the
    /// [`teller`](Self::teller).
    ///
    /// # Errors
    /// If there is no configuration.
    pub fn with(
        options: Options,
        seen: watch::Receiver<Arc<Seen>>,
        pods: watch::Receiver<Arc<Vec<NodePod>>>,
    ) -> Result<Self, HandoutError> {
        Self::labelled(options, seen, pods, None)
    }

    fn labelled(
        options: Options,
        seen: watch::Receiver<Arc<Seen>>,
        pods: watch::Receiver<Arc<Vec<NodePod>>>,
        label: Option<&str>,
    ) -> Result<Self, HandoutError> {
        let read = options.config.read(label)?;
        read.warnings.iter().for_each(|warning| warn!("{warning}"));
        let (_, config) = watch::channel(Arc::new(read.config));
        let (reports, teller) = Reports::channel();
        let hands = Hands::new(pods.clone());
        let inputs = Inputs { seen, pods, config };
        Ok(Self { options, inputs, hands, reports, teller: Some(teller), feeding: JoinSet::new() })
    }

    fn follow_config(&mut self, labels: watch::Receiver<Option<String>>) {
        let now = Arc::clone(&self.inputs.config.borrow());
        let (sender, config) = watch::channel(now);
        self.inputs.config = config;
        let source = self.options.config.clone();
        self.feeding.spawn(async move {
            if let Err(problem) = source.follow(labels, sender).await {
                error!("the configuration is not followed: {problem}");
            }
        });
    }

    /// The pods of this node, as they are followed.
    pub fn pods(&self) -> watch::Receiver<Arc<Vec<NodePod>>> {
        self.inputs.pods.clone()
    }

    /// What containers have, as long as devices are handed out.
    pub fn hands(&self) -> Hands {
        self.hands.clone()
    }

    /// The configuration in effect.
    pub fn config(&self) -> watch::Receiver<Arc<Config>> {
        self.inputs.config.clone()
    }

    /// Where reports come out, unless events are written from there.
    pub fn teller(&mut self) -> Option<Teller> {
        self.teller.take()
    }

    /// Adds what is counted.
    pub fn register(&self, registry: &mut Registry) {
        self.reports.register(registry);
    }

    /// Hands out devices until `stop` ends. Then sockets are gone and control daemons have ended.
    ///
    /// # Errors
    /// If what was handed out cannot be read or kept, a folder is missing, or the cards cannot be offered as configured
    /// and `failOnInitError` is set.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), HandoutError> {
        let Self { options, inputs, hands, reports, .. } = &mut self;
        let (desk, stands) = Desk::open(options, inputs.pods.clone(), hands.clone(), reports.clone())?;
        let desk = Arc::new(desk);
        let mut standing = stand::Standing::new(options, inputs.seen.clone(), inputs.config.clone(), stands);
        standing.look(!options.partitions)?;
        let folder = options.plugins.clone();
        let kubelet = options.kubelet.clone().unwrap_or_else(|| kubelet_socket(&folder));
        let places = Places { folder, kubelet };
        let (ended, end) = watch::channel(());
        let daemons = mps::supervise(options.mps.clone(), desk.stand(), standing.daemons(), end.clone());
        let daemons = tokio::spawn(daemons);
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = standing.follow() => {}
                () = reconcile(&desk, options.reconcile_every) => {}
            }
        };
        let served = plugin::serve(Arc::clone(&desk), &places, stop).await;
        drop((ended, end));
        if let Err(error) = daemons.await {
            error!(%error, "the MPS control daemons were not ended in order");
        }
        Ok(served?)
    }
}

/// Keeps the books as kubelet has them.
async fn reconcile(desk: &Desk, every: Duration) {
    let mut pods = desk.pods();
    loop {
        desk.reconcile().await;
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            changed = pods.changed() => if changed.is_err() { tokio::time::sleep(every).await },
        }
    }
}

/// The file that keeps what was handed out, where nothing else is said.
pub const DEFAULT_CHECKPOINT: &str = "/var/lib/gpu-scheduler/agent/handed-out.json";

#[cfg(test)]
mod tests;
