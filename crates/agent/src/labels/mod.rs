//! The node's labels, as GPU Feature Discovery writes them, and `nvidia.com/gpu.topology` beside them.
//!
//! What differs: a value that Kubernetes would refuse is cut to what it takes, because one bad label would cost all of them;
//! on a node with several models `nvidia.com/gpu.*` describes the one with the most cards (theirs: any); in vGPU guests the
//! host driver's version is not said.

mod card;
mod driver;
mod mig;
mod partition;
mod sharing;
mod text;
mod topology;
mod writer;

use std::collections::BTreeMap;

pub use sharing::{Sharing, SharingStrategy};
pub use text::product;
pub use writer::write;

use crate::collect::NodeFacts;
use crate::config::{self, Config, MigStrategy};
use crate::inventory::Inventory;

/// Labels by their whole name.
pub type Labels = BTreeMap<String, String>;

/// The label that says when the others were written, in seconds since the epoch.
const TIMESTAMP: &str = "nvidia.com/gfd.timestamp";

/// What the configuration says that labels depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelOptions {
    /// How MIG devices are offered.
    pub mig_strategy: MigStrategy,
    /// What shares devices.
    pub strategy: SharingStrategy,
    /// How resources are shared, by their whole name before renaming, such as `nvidia.com/gpu`.
    pub sharing: BTreeMap<String, Sharing>,
    /// Leave `nvidia.com/gfd.timestamp` out.
    pub no_timestamp: bool,
}

impl From<&Config> for LabelOptions {
    fn from(config: &Config) -> Self {
        let strategy = match config.sharing {
            config::Sharing::None => SharingStrategy::None,
            config::Sharing::TimeSlicing(_) => SharingStrategy::TimeSlicing,
            config::Sharing::Mps(_) => SharingStrategy::Mps,
        };
        let replication = config.sharing.replication();
        let sharing = replication.iter().flat_map(|replication| {
            let of = |replicas: &u32| Sharing { strategy, replicas: *replicas, renamed: replication.rename };
            replication.resources.iter().map(move |(name, replicas)| (name.to_string(), of(replicas)))
        });
        Self {
            mig_strategy: config.mig_strategy,
            strategy,
            sharing: sharing.collect(),
            no_timestamp: config.gfd.no_timestamp,
        }
    }
}

impl LabelOptions {
    fn sharing(&self, resource: &str) -> Sharing {
        self.sharing.get(resource).copied().unwrap_or_default()
    }
}

/// All labels but the time. A node without cards has none.
pub fn labels(inventory: &Inventory, facts: &NodeFacts, options: &LabelOptions) -> Labels {
    let mut labels = Labels::new();
    if inventory.cards.is_empty() {
        return labels;
    }
    driver::add(&mut labels, inventory);
    card::add(&mut labels, inventory, facts, options);
    match options.mig_strategy {
        MigStrategy::None => {}
        MigStrategy::Single => mig::add_single(&mut labels, inventory, options),
        MigStrategy::Mixed => mig::add_mixed(&mut labels, inventory, options),
    }
    labels.insert("nvidia.com/gpu.topology".to_owned(), topology::of(inventory).to_owned());
    labels.values_mut().for_each(|value| *value = text::value(value));
    labels
}

/// The labels with the time at which they are written, in seconds since the epoch.
pub fn stamped(labels: &Labels, no_timestamp: bool, now: u64) -> Labels {
    let mut labels = labels.clone();
    if !no_timestamp && !labels.is_empty() {
        labels.insert(TIMESTAMP.to_owned(), now.to_string());
    }
    labels
}

#[cfg(test)]
mod tests;
