//! The daemons that how things stand asks for, kept running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::MpsOptions;
use super::access::is_shared;
use super::daemon::{Daemon, Plan};
use crate::handout::Stand;
use crate::inventory::GpuUuid;
use crate::resources::{Hold, Resource, ResourceName};

/// Runs a daemon for each resource that is shared by MPS until `end` closes, and tells which of them run. When it returns,
/// all have ended.
pub async fn supervise(
    options: MpsOptions,
    mut stand: watch::Receiver<Arc<Stand>>,
    running: watch::Sender<BTreeSet<ResourceName>>,
    mut end: watch::Receiver<()>,
) {
    let mut keepers: BTreeMap<ResourceName, Keeper> = BTreeMap::new();
    loop {
        let plans = plans(&stand.borrow_and_update());
        let surplus: Vec<_> = keepers
            .iter()
            .filter(|(name, it)| plans.get(*name) != Some(&it.plan))
            .map(|(name, _)| name.clone())
            .collect();
        for name in surplus {
            if let Some(keeper) = keepers.remove(&name) {
                keeper.stop().await;
            }
        }
        for (name, plan) in plans {
            keepers.entry(name).or_insert_with(|| Keeper::start(plan, options.clone(), running.clone()));
        }
        tokio::select! {
            closed = end.changed() => if closed.is_err() { break },
            changed = stand.changed() => if changed.is_err() { break },
        }
    }
    futures::future::join_all(keepers.into_values().map(Keeper::stop)).await;
}

/// The daemons that are needed.
pub(super) fn plans(stand: &Stand) -> BTreeMap<ResourceName, Plan> {
    let shared = stand.offer.resources.iter().filter(|resource| is_shared(stand, resource));
    shared.map(|resource| (resource.name.clone(), plan(stand, resource))).collect()
}

fn plan(stand: &Stand, resource: &Resource) -> Plan {
    let mut uuids: Vec<GpuUuid> = Vec::new();
    for unit in &resource.units {
        if !uuids.contains(&unit.card) {
            uuids.push(unit.card.clone());
        }
    }
    let cards = uuids.iter().filter_map(|uuid| stand.seen.inventory.card(uuid));
    let limits = match resource.hold {
        Hold::Replica { of } => {
            let memory = cards.map(|card| (card.index, card.memory.0 / u64::from(of.max(1)))).collect();
            Some((memory, 100 / of.max(1)))
        }
        Hold::Whole | Hold::Slice | Hold::Share => None,
    };
    Plan { resource: resource.name.clone(), root: stand.config.mps_root.clone(), cards: uuids, limits }
}

/// Keeps one daemon running.
struct Keeper {
    plan: Plan,
    open: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Keeper {
    fn start(plan: Plan, options: MpsOptions, running: watch::Sender<BTreeSet<ResourceName>>) -> Self {
        let (open, end) = watch::channel(());
        let task = tokio::spawn(keep(plan.clone(), options, running, end));
        Self { plan, open, task }
    }

    async fn stop(self) {
        drop(self.open);
        if let Err(problem) = self.task.await {
            warn!(%problem, resource = %self.plan.resource, "the MPS control daemon was not ended in order");
        }
    }
}

async fn keep(
    plan: Plan,
    options: MpsOptions,
    running: watch::Sender<BTreeSet<ResourceName>>,
    mut end: watch::Receiver<()>,
) {
    let name = &plan.resource;
    let mut pause = options.first_pause;
    loop {
        let problem = match Daemon::start(&plan, &options).await {
            Ok(mut daemon) => {
                info!(resource = %name, "an MPS control daemon runs");
                running.send_if_modified(|running| running.insert(name.clone()));
                pause = options.first_pause;
                let failed = tokio::select! {
                    _ = end.changed() => None,
                    problem = daemon.fails() => Some(problem),
                };
                running.send_if_modified(|running| running.remove(name));
                let Some(problem) = failed else {
                    if let Err(problem) = daemon.stop().await {
                        warn!(resource = %name, "{problem}");
                    }
                    return;
                };
                daemon.clear().await;
                problem
            }
            Err(problem) => problem,
        };
        warn!(resource = %name, "{problem}; the daemon is started again in {pause:?}");
        tokio::select! {
            _ = end.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(options.longest_pause);
    }
}
