//! The scheduler's metrics: names and buckets are those of kube-scheduler where it has the thing, so that its
//! dashboards and alerts work unchanged; what it does not know is `gpu_scheduler_…`. `docs/metrics.md` lists them.

mod cards;
mod families;
mod labels;
mod process;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use cards::{ModelUse, per_model};
pub use labels::{AttemptResult, BindResult, CacheType, QueueEvent, QueueName, Watched, WriteKind, WriteResult};

use cards::CardGauges;
use families::Families;
use labels::{
    AttemptLabels, Attempts, BindLabels, CacheLabels, IncomingLabels, KindLabels, LeaseLabels, QueueLabels, SliLabels,
    WatchLabels, WriteLabels,
};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Pods that wait, by part of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingPods {
    /// To be tried.
    pub active: usize,
    /// To be tried after a pause.
    pub backoff: usize,
    /// To be tried once something changes for them.
    pub unschedulable: usize,
    /// Kept out by a scheduling gate.
    pub gated: usize,
}

/// All metrics. A clone is another handle on the same ones.
///
/// ```
/// use gpu_scheduler_cluster::metrics::{AttemptResult, Metrics};
/// let metrics = Metrics::new();
/// metrics.attempt("gpu-scheduler", AttemptResult::Scheduled, std::time::Duration::from_millis(2));
/// let line = r#"scheduler_schedule_attempts_total{result="scheduled",profile="gpu-scheduler"} 1"#;
/// assert!(metrics.render().contains(line));
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    families: Families,
    cards: Arc<CardGauges>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// The media type of [`Metrics::render`].
    pub const CONTENT_TYPE: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Metrics at zero. Call it once, when the program begins: that is the time of `process_start_time_seconds`.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let families = Families::new(&mut registry);
        let cards = Arc::new(CardGauges::default());
        registry.register_collector(Box::new(cards.clone()));
        registry.register_collector(Box::new(process::Process::starting_now()));
        Self { inner: Arc::new(Inner { registry, families, cards }) }
    }

    /// All metrics as OpenMetrics text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.inner.registry).expect("writing into a string does not fail");
        out
    }

    /// An attempt to schedule a pod of `profile` (a scheduler name) ended, so long after the pod was taken out of the
    /// queue.
    pub fn attempt(&self, profile: &str, result: AttemptResult, took: Duration) {
        let labels = AttemptLabels { result, profile: profile.to_owned() };
        self.inner.families.attempts.get_or_create(&labels).inc();
        self.inner.families.attempt_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A pod was bound at this attempt (the first is 1), so long after it was created.
    pub fn bound(&self, attempts: u32, since_created: Duration) {
        self.inner.families.pod_attempts.observe(f64::from(attempts));
        let labels = SliLabels { attempts: Attempts::of(attempts) };
        self.inner.families.sli_seconds.get_or_create(&labels).observe(since_created.as_secs_f64());
    }

    /// So many pods wait now.
    pub fn pending(&self, pods: PendingPods) {
        let PendingPods { active, backoff, unschedulable, gated } = pods;
        for (queue, count) in [
            (QueueName::Active, active),
            (QueueName::Backoff, backoff),
            (QueueName::Unschedulable, unschedulable),
            (QueueName::Gated, gated),
        ] {
            self.inner.families.pending.get_or_create(&QueueLabels { queue }).set(gauge(count));
        }
    }

    /// A pod came into a part of the queue.
    pub fn queue_incoming(&self, queue: QueueName, event: QueueEvent, pods: u64) {
        self.inner.families.incoming.get_or_create(&IncomingLabels { queue, event }).inc_by(pods);
    }

    /// So many more pods that fit nowhere looked for others that could make room.
    pub fn preemption_attempts(&self, pods: u64) {
        self.inner.families.preemption_attempts.inc_by(pods);
    }

    /// So many more times a pod had so many `victims` evicted.
    pub fn preempted(&self, victims: u32, times: u64) {
        (0..times).for_each(|_| self.inner.families.preemption_victims.observe(f64::from(victims)));
    }

    /// The engine worked so long on one decision: all its steps, without waiting for anything.
    pub fn decision(&self, took: Duration) {
        self.inner.families.algorithm_seconds.observe(took.as_secs_f64());
        self.inner.families.decision_seconds.observe(took.as_secs_f64());
    }

    /// So many binds are out now.
    pub fn binds_in_flight(&self, binds: usize) {
        self.inner.families.binds_in_flight.set(gauge(binds));
    }

    /// A bind ended.
    pub fn bind_finished(&self, result: BindResult) {
        self.inner.families.binds.get_or_create(&BindLabels { result }).inc();
    }

    /// A write to the API server ended.
    pub fn api_write(&self, kind: WriteKind, result: WriteResult) {
        self.inner.families.writes.get_or_create(&WriteLabels { kind, result }).inc();
    }

    /// A watch broke off and was begun again.
    pub fn watch_restarted(&self, resource: Watched) {
        self.inner.families.watch_restarts.get_or_create(&WatchLabels { resource }).inc();
    }

    /// An object made no sense, in whole or in part.
    pub fn malformed(&self, kind: Watched) {
        self.inner.families.malformed.get_or_create(&KindLabels { kind }).inc();
    }

    /// The cards are used like this now; models that are not in the list end.
    pub fn cards(&self, models: Vec<ModelUse>) {
        self.inner.cards.set(models);
    }

    /// The scheduler knows so many things now.
    pub fn cache_size(&self, nodes: usize, pods: usize, assumed: usize) {
        for (r#type, count) in [(CacheType::Nodes, nodes), (CacheType::Pods, pods), (CacheType::AssumedPods, assumed)] {
            self.inner.families.cache.get_or_create(&CacheLabels { r#type }).set(gauge(count));
        }
    }

    /// Whether this process holds the lease `name`.
    pub fn leader(&self, name: &str, leads: bool) {
        self.inner.families.leader.get_or_create(&LeaseLabels { name: name.to_owned() }).set(i64::from(leads));
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
