//! How the agent itself does.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::state::Target;

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// It took effect.
    Done,
    /// It did not, and is tried again.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

pub(super) struct Own {
    collections: Family<ResultLabels, Counter>,
    collection_seconds: Gauge<f64, AtomicU64>,
    writes: Family<WriteLabels, Counter>,
    other_agents: Gauge,
}

impl Own {
    pub fn new(registry: &mut Registry) -> Self {
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("gpu_scheduler_agent_build", "The agent that runs", build);
        let own = Self {
            collections: Family::default(),
            collection_seconds: Gauge::default(),
            writes: Family::default(),
            other_agents: Gauge::default(),
        };
        registry.register(
            "gpu_scheduler_agent_collections",
            "Rounds over all cards, by how they ended",
            own.collections.clone(),
        );
        registry.register(
            "gpu_scheduler_agent_collection_duration_seconds",
            "Time of the last round over all cards",
            own.collection_seconds.clone(),
        );
        registry.register(
            "gpu_scheduler_agent_api_writes",
            "Writes to the API server, by how they ended",
            own.writes.clone(),
        );
        registry.register(
            "gpu_scheduler_agent_other_agents",
            "Other agents that were seen to report for this node",
            own.other_agents.clone(),
        );
        own
    }

    pub fn collected(&self, took: Duration) {
        self.collections.get_or_create(&ResultLabels { result: "done" }).inc();
        self.collection_seconds.set(took.as_secs_f64());
    }

    pub fn not_collected(&self) {
        self.collections.get_or_create(&ResultLabels { result: "failed" }).inc();
    }

    pub fn wrote(&self, target: Target, result: WriteResult) {
        let result = match result {
            WriteResult::Done => "done",
            WriteResult::Failed => "failed",
        };
        self.writes.get_or_create(&WriteLabels { kind: target.as_str(), result }).inc();
    }

    pub fn other_agents(&self, count: usize) {
        self.other_agents.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
