//! The agent of one node: what looks at it, what hands its devices out, and the pages that tell of both.
//!
//! ```text
//!   driver ──▶ observer ──seen──▶ hand-out ◀──▶ kubelet
//!                 │  ▲ ▲             │            │
//!        API server  │ └─pods, config┘            │
//!                    └───────who has what─────────┘
//! ```

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_cluster::serve::Listen;
use kube::Client;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

use crate::handout::{self, Handout, HandoutError};
use crate::metrics::{self, Metrics, MetricsOptions};
use crate::mig::{self, MigError};
use crate::observe::{ObserveOptions, Observer};
use crate::podresources::{Following, Pace};

/// How long it may take until it is known what containers have, before cards are partitioned.
const SETTLED: Duration = Duration::from_secs(60);

/// How an agent is set up.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// What it looks at. Its `hands_out` says whether devices are handed out too, or another device plugin does that.
    pub observe: ObserveOptions,
    /// How it hands out.
    pub handout: handout::Options,
    /// How cards are partitioned; `None`: not at all, whatever the node's label says.
    pub mig: Option<mig::Options>,
    /// How its series are labelled.
    pub metrics: MetricsOptions,
    /// Where its pages are.
    pub listen: Listen,
}

/// Why an agent cannot start, or ended.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The driver cannot be asked, and the configuration says not to wait for it.
    #[error("{0}; with failOnInitError: false (FAIL_ON_INIT_ERROR) the agent waits for the driver instead")]
    Driver(String),
    /// Devices cannot be handed out.
    #[error(transparent)]
    Handout(#[from] HandoutError),
    /// Cards cannot be partitioned.
    #[error(transparent)]
    Mig(#[from] MigError),
    /// The pages cannot be served.
    #[error("cannot serve health and metrics on {address}: {source}")]
    Serve {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Runs an agent until `stop`. `client` reads and watches; `writes` should not repeat what failed.
///
/// # Errors
/// [`AgentError`] where the node is not as the agent needs it.
pub async fn run(
    options: AgentOptions,
    client: Client,
    writes: Client,
    stop: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    let (seen, seeing) = watch::channel(Arc::default());
    let hands_out = options.observe.hands_out;
    let pod_resources = options.handout.pod_resources.clone();
    let handout = handout::Options { partitions: options.mig.is_some(), ..options.handout };
    let handout = Handout::new(handout, client.clone(), seeing).await?;
    let mut registry = Registry::default();
    handout.register(&mut registry);
    let metrics = Metrics::beside(registry, options.metrics);
    let config = handout.config();
    let lists = Following::start(pod_resources, Pace::usual(options.observe.interval), handout.pods());
    let observer =
        Observer::new(options.observe, handout.pods(), lists.newest(), config.clone(), metrics.clone(), seen);

    let (ended, end) = watch::channel(());
    let address = options.listen.address;
    let served =
        metrics::serve(options.listen, metrics, observer.readiness(), Some(client.clone()), ending(end.clone())).await;
    let (address, pages) = served.map_err(|source| AgentError::Serve { address, source })?;
    info!(%address, "health and metrics are served");

    let observer = observer.look().await;
    if let Some(trouble) = observer.trouble()
        && config.borrow().fail_on_init_error
    {
        return Err(AgentError::Driver(trouble.to_owned()));
    }
    let hands = handout.hands();
    let look_again = observer.look_again();
    let cutting = async {
        match options.mig {
            Some(mig) => {
                // What comes before would only be said to fail, and what never comes is to be said.
                tokio::select! {
                    () = hands.known() => {}
                    () = tokio::time::sleep(SETTLED) => {}
                    () = ending(end.clone()) => {}
                }
                mig::run(mig, client, move || hands.claim(), look_again, ending(end.clone())).await
            }
            None => Ok(()),
        }
    };
    let observing = async {
        observer.run(writes, ending(end.clone())).await;
        Ok(())
    };
    let handing = async {
        if hands_out {
            return Ok(handout.run(ending(end.clone())).await?);
        }
        // It stays, for it knows the pods and the configuration.
        let _handout = handout;
        ending(end.clone()).await;
        Ok::<_, AgentError>(())
    };
    let all = async {
        let cutting = async { Ok(cutting.await?) };
        tokio::try_join!(observing, handing, cutting)
    };
    let mut all = std::pin::pin!(all);
    tokio::select! {
        result = &mut all => drop(result?),
        () = stop => {
            drop(ended);
            all.await?;
        }
    }
    let _ = pages.await;
    Ok(())
}

/// Ends when the other side of `end` is gone.
async fn ending(mut end: watch::Receiver<()>) {
    while end.changed().await.is_ok() {}
}
