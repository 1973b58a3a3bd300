//! How things stand: what is there, what is in effect, and what is offered, of one moment.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, warn};

use super::Options;
use crate::config::Config;
use crate::container::{DeviceNodes, spec, write_spec};
use crate::inventory::{DeviceHealth, DeviceUuid, Seen};
use crate::resources::{Offer, OfferError, OfferWarning, Resource, ResourceName, SeatRules, Unit, offer};

/// When a CDI specification that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// What is there.
    pub seen: Arc<Seen>,
    /// What is in effect.
    pub config: Arc<Config>,
    /// What is offered.
    pub offer: Offer,
    /// Its device nodes.
    pub nodes: DeviceNodes,
    /// Whether an MPS server holds shares to their limits.
    pub shares_by_mps: bool,
    /// Resources whose MPS control daemon runs.
    pub daemons: BTreeSet<ResourceName>,
}

impl Stand {
    /// Before anything was seen.
    pub(super) fn empty() -> Self {
        Self {
            seen: Arc::default(),
            config: Arc::new(Config::defaults()),
            offer: Offer::default(),
            nodes: DeviceNodes::default(),
            shares_by_mps: false,
            daemons: BTreeSet::new(),
        }
    }

    /// Whether kubelet may give this unit to a container: its device works and so does the control daemon that it needs.
    pub fn is_healthy(&self, resource: &Resource, unit: &Unit) -> bool {
        let card = DeviceUuid::Gpu(unit.card.clone());
        let works = |device| !matches!(self.seen.health.get(device), Some(DeviceHealth::Unhealthy { .. }));
        let served = !crate::sharing::mps::is_shared(self, resource) || self.daemons.contains(&resource.name);
        works(&unit.id.device) && works(&card) && served
    }
}

/// Keeps how things stand up to date.
pub(super) struct Standing {
    seats: SeatRules,
    root: PathBuf,
    procfs: PathBuf,
    cdi: PathBuf,
    seen: watch::Receiver<Arc<Seen>>,
    config: watch::Receiver<Arc<Config>>,
    running: watch::Receiver<BTreeSet<ResourceName>>,
    daemons: watch::Sender<BTreeSet<ResourceName>>,
    stands: watch::Sender<Arc<Stand>>,
    said: Vec<OfferWarning>,
    /// The CDI specification that was written last.
    written: Option<serde_json::Value>,
    /// Whether the newest one could not be.
    unwritten: bool,
}

impl Standing {
    pub fn new(
        options: &Options,
        seen: watch::Receiver<Arc<Seen>>,
        config: watch::Receiver<Arc<Config>>,
        stands: watch::Sender<Arc<Stand>>,
    ) -> Self {
        let (daemons, running) = watch::channel(BTreeSet::new());
        let (root, procfs, cdi) = (options.root.clone(), options.procfs.clone(), options.cdi.clone());
        Self {
            seats: options.seats,
            root,
            procfs,
            cdi,
            seen,
            config,
            running,
            daemons,
            stands,
            said: Vec::new(),
            written: None,
            unwritten: false,
        }
    }

    /// Where it is told which control daemons run.
    pub fn daemons(&self) -> watch::Sender<BTreeSet<ResourceName>> {
        self.daemons.clone()
    }

    /// Looks. Cards that cannot be offered as configured are an error at the start, if `failOnInitError` says so; else
    /// nothing is offered until cards or configuration change.
    pub fn look(&mut self, start: bool) -> Result<(), OfferError> {
        let seen = Arc::clone(&self.seen.borrow_and_update());
        let config = Arc::clone(&self.config.borrow_and_update());
        let daemons = self.running.borrow_and_update().clone();
        let offer = match offer(&seen.inventory, &config, self.seats) {
            Ok(offer) => offer,
            Err(problem) if start && config.fail_on_init_error => return Err(problem),
            Err(problem) => {
                error!("nothing is offered: {problem}");
                Offer::default()
            }
        };
        for warning in offer.warnings.iter().filter(|warning| !self.said.contains(warning)) {
            warn!("{warning}");
        }
        self.said.clone_from(&offer.warnings);
        let nodes = DeviceNodes::find(&self.root, &self.procfs, &config, &seen.inventory);
        let before = Arc::clone(&self.stands.borrow());
        let stand = Stand { seen, config, offer, nodes, shares_by_mps: self.seats.by_mps, daemons };
        if stand.config.device_list.iter().any(|strategy| strategy.is_cdi()) {
            let spec = spec(&stand.config, &stand.seen.inventory, &stand.nodes);
            if self.written.as_ref() != Some(&spec) {
                match write_spec(&self.cdi, &spec) {
                    Ok(_) => (self.written, self.unwritten) = (Some(spec), false),
                    Err(problem) => {
                        error!("{problem}; it is tried again");
                        self.unwritten = true;
                    }
                }
            }
        }
        if stand != *before {
            self.stands.send_replace(Arc::new(stand));
        }
        Ok(())
    }

    /// Looks whenever something changes. Once nobody looks at the cards any more, what was seen last stays.
    pub async fn follow(&mut self) {
        loop {
            tokio::select! {
                Ok(()) = self.seen.changed() => {}
                Ok(()) = self.config.changed() => {}
                Ok(()) = self.running.changed() => {}
                () = tokio::time::sleep(AGAIN), if self.unwritten => {}
                else => std::future::pending().await,
            }
            if let Err(problem) = self.look(false) {
                error!("nothing is offered: {problem}");
            }
        }
    }
}
