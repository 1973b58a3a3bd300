//! `/metrics`: DCGM exporter's names, labels and units, and a few of our own. `docs/agent-metrics.md` lists them.

mod entity;
mod exposed;
mod fields;
mod own;
mod server;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

pub use entity::HostnameLabel;
pub use own::WriteResult;
pub use server::{Readiness, serve};

use crate::collect::Round;
use crate::state::Target;
use exposed::Exposed;
use own::Own;

/// How series are labelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsOptions {
    /// The node's name.
    pub node: String,
    /// The name of the label that has it.
    pub hostname_label: HostnameLabel,
}

/// All metrics of the agent. A clone is another handle on the same ones.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    own: Own,
    exposed: Arc<Exposed>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The media type of [`Metrics::render`]: the text format that DCGM exporter has too. OpenMetrics would want
    /// `_total` behind its counters.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Metrics of nothing yet.
    pub fn new(options: MetricsOptions) -> Self {
        Self::beside(Registry::default(), options)
    }

    /// Metrics of nothing yet, beside what others count in this registry.
    pub fn beside(mut registry: Registry, options: MetricsOptions) -> Self {
        let own = Own::new(&mut registry);
        let exposed = Arc::new(Exposed::new(options));
        registry.register_collector(Box::new(exposed.clone()));
        Self { inner: Arc::new(Inner { registry, own, exposed }) }
    }

    /// A round found this; what it does not have ends its series.
    pub fn round(&self, round: &Arc<Round>) {
        self.inner.own.collected(round.took);
        self.inner.exposed.set(Some(round.clone()));
    }

    /// There was no round: the driver cannot be asked.
    pub fn no_round(&self) {
        self.inner.own.not_collected();
        self.inner.exposed.set(None);
    }

    /// A write to the API server ended.
    pub fn wrote(&self, target: Target, result: WriteResult) {
        self.inner.own.wrote(target, result);
    }

    /// So many other agents were seen to report for this node.
    pub fn other_agents(&self, count: usize) {
        self.inner.own.other_agents(count);
    }

    /// All metrics as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.inner.registry).expect("writing into a string does not fail");
        out
    }
}

#[cfg(test)]
mod tests;
