//! Looks at the node every ten seconds and at each XID, and tells whoever wants to know: kubelet's plugins, the API server, Prometheus.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_engine::model::TopologyManager;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, timeout};

use crate::checkpoint::Listed;
use crate::collect::{CollectOptions, Collector, Round, RoundError};
use crate::config::Config;
use crate::inventory::{DeviceHealth, DeviceUuid, Seen};
use crate::labels::{LabelOptions, labels};
use crate::metrics::{Metrics, Readiness};
use crate::pods::NodePod;
use crate::state::{self, Desired, Instance, Writer, status};

/// How often to look if nobody says otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// How long a look may take before the driver counts as silent.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// What to look at, how often, and what to call the node.
#[derive(Debug, Clone)]
pub struct ObserveOptions {
    /// The node's name.
    pub node: String,
    /// Where to look.
    pub collect: CollectOptions,
    /// Whether the node's devices are handed out by the scheduler's records too.
    pub hands_out: bool,
    /// How the node's kubelet aligns devices to NUMA nodes, where that is known.
    pub topology_manager: Option<TopologyManager>,
    /// How often.
    pub interval: Duration,
    /// How long a look may take before the driver counts as silent.
    pub patience: Duration,
}

/// Looks at one node.
pub struct Observer {
    options: ObserveOptions,
    /// `None` while a look is under way that takes too long.
    collector: Option<Collector>,
    looking: Option<JoinHandle<(Collector, Result<Round, RoundError>)>>,
    /// Is notified when there is reason to look at once.
    arrived: Arc<Notify>,
    pods: watch::Receiver<Arc<Vec<NodePod>>>,
    listed: watch::Receiver<Arc<Vec<Listed>>>,
    config: watch::Receiver<Arc<Config>>,
    metrics: Metrics,
    readiness: Readiness,
    instance: Instance,
    seen: watch::Sender<Arc<Seen>>,
    desired: watch::Sender<Option<Arc<Desired>>>,
    trouble: Option<String>,
}

impl Observer {
    /// An observer of a node with these pods, to which kubelet gave what is `listed`. It tells `seen` of the devices and how
    /// they are whenever that changes.
    pub fn new(
        options: ObserveOptions,
        pods: watch::Receiver<Arc<Vec<NodePod>>>,
        listed: watch::Receiver<Arc<Vec<Listed>>>,
        config: watch::Receiver<Arc<Config>>,
        metrics: Metrics,
        seen: watch::Sender<Arc<Seen>>,
    ) -> Self {
        let collector = Collector::new(options.collect.clone());
        Self {
            arrived: collector.xid_arrived(),
            collector: Some(collector),
            looking: None,
            instance: Instance::new(options.hands_out, options.topology_manager),
            options,
            pods,
            listed,
            config,
            metrics,
            readiness: Readiness::default(),
            seen,
            desired: watch::Sender::new(None),
            trouble: None,
        }
    }

    /// Why the driver could not be asked at the last look.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What is to be on the API server; `None` before the first look.
    pub fn desired(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.desired.subscribe()
    }

    /// Whether the last look found anything.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Whoever notifies this is why the next look comes at once.
    pub fn look_again(&self) -> Arc<Notify> {
        Arc::clone(&self.arrived)
    }

    /// Looks until `shutdown`, and writes to the API server what it sees. `client` should not repeat what failed.
    pub async fn run(mut self, client: kube::Client, shutdown: impl Future<Output = ()>) {
        let writer = Writer::new(client, &self.options.node, self.metrics.clone());
        let desired = self.desired();
        let look = async {
            let mut ticks = tokio::time::interval(self.options.interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let xid = self.look_again();
            let mut config = self.config.clone();
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    // What makes a device unhealthy is told at once.
                    () = xid.notified() => {}
                    // Labels follow the configuration.
                    Ok(()) = config.changed() => {}
                }
                self = self.look().await;
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = state::run(writer, desired, std::future::pending()) => {}
            () = look => {}
        }
    }

    /// Looks once, on a thread where it may block.
    pub async fn look(mut self) -> Self {
        let pods = self.pods.borrow_and_update().clone();
        let listed = self.listed.borrow_and_update().clone();
        let begin = |mut collector: Collector| {
            tokio::task::spawn_blocking(move || {
                let result = collector.round(&pods, &listed);
                (collector, result)
            })
        };
        let begun = self.looking.take().or_else(|| self.collector.take().map(begin));
        let mut looking = begun.expect("the collector is here or at work");
        match timeout(self.options.patience, &mut looking).await {
            Ok(Ok((collector, result))) => {
                self.collector = Some(collector);
                self.take(result);
            }
            Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            Err(_) => {
                // A card that fell off may keep a call for ever.
                self.looking = Some(looking);
                self.unanswered();
            }
        }
        self
    }

    /// A look takes too long: what is known of the cards stays, and none takes anything new.
    fn unanswered(&mut self) {
        let seen = Arc::clone(&self.seen.borrow());
        let reason = format!("the driver has not answered for {:?}", self.options.patience);
        let cards = seen.inventory.cards.iter();
        let devices = cards.flat_map(|card| {
            let parts = card.mig.devices().iter().map(|part| DeviceUuid::Mig(part.uuid.clone()));
            std::iter::once(DeviceUuid::Gpu(card.uuid.clone())).chain(parts)
        });
        let health = devices.map(|device| (device, DeviceHealth::Unhealthy { reason: reason.clone() })).collect();
        self.silent(reason, Seen { inventory: seen.inventory.clone(), health });
    }

    fn take(&mut self, result: Result<Round, RoundError>) {
        match result {
            Ok(round) => {
                if self.trouble.take().is_some() {
                    tracing::info!("the cards can be seen again");
                }
                self.readiness.set(true);
                let round = Arc::new(round);
                self.metrics.round(&round);
                self.publish(Seen { inventory: (*round.inventory).clone(), health: round.health.clone() });
                let options = LabelOptions::from(&**self.config.borrow());
                let labels = labels(&round.inventory, &round.facts, &options);
                let status = status(&round, &self.instance, &options);
                let desired = Desired { status, labels, no_timestamp: options.no_timestamp };
                self.desired.send_replace(Some(Arc::new(desired)));
            }
            Err(error) => self.blind(&error),
        }
    }

    /// The driver cannot be asked. What is known of the cards stays, but none takes anything new.
    fn blind(&mut self, error: &RoundError) {
        let (inventory, health) = self.collector.as_mut().map_or_else(Default::default, |collector| collector.blind());
        self.silent(error.to_string(), Seen { inventory: (*inventory).clone(), health });
    }

    fn silent(&mut self, text: String, seen: Seen) {
        if self.trouble.as_ref() != Some(&text) {
            tracing::warn!("{text}");
            self.trouble = Some(text);
        }
        self.readiness.set(false);
        self.metrics.no_round();
        if seen.inventory.cards.is_empty() {
            return; // nothing was ever seen, so there is nothing to say
        }
        self.publish(seen);
        self.desired.send_if_modified(|desired| {
            let Some(known) = desired else { return false };
            let mut silent = (**known).clone();
            silent.status.silence("the driver does not answer");
            let changed = silent != **known;
            *known = Arc::new(silent);
            changed
        });
    }

    fn publish(&self, seen: Seen) {
        self.seen.send_if_modified(|known| {
            if **known == seen {
                return false;
            }
            tell_changes(known, &seen);
            *known = Arc::new(seen);
            true
        });
    }
}

/// Says which devices became unhealthy or well again.
fn tell_changes(before: &Seen, after: &Seen) {
    for (device, health) in &after.health {
        match (before.health.get(device), health) {
            (Some(before), after) if before == after => {}
            (_, DeviceHealth::Unhealthy { reason }) => {
                tracing::warn!(%device, reason, "a device is unhealthy and takes no new pods");
            }
            (Some(DeviceHealth::Unhealthy { .. }), DeviceHealth::Healthy) => {
                tracing::info!(%device, "a device is healthy again");
            }
            _ => {}
        }
    }
}
