//! The metrics with their names, help texts and buckets.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::labels::{
    AttemptLabels, BindLabels, BuildLabels, CacheLabels, IncomingLabels, KindLabels, LeaseLabels, QueueLabels,
    SliLabels, WatchLabels, WriteLabels,
};

/// A family of histograms with buckets of its own.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All that is counted, but for cards and the process, which are read when asked for.
pub(super) struct Families {
    pub attempts: Family<AttemptLabels, Counter>,
    pub attempt_seconds: Histograms<AttemptLabels>,
    pub pending: Family<QueueLabels, Gauge>,
    pub pod_attempts: Histogram,
    pub sli_seconds: Histograms<SliLabels>,
    pub incoming: Family<IncomingLabels, Counter>,
    pub preemption_attempts: Counter,
    pub preemption_victims: Histogram,
    pub algorithm_seconds: Histogram,
    pub cache: Family<CacheLabels, Gauge>,
    pub leader: Family<LeaseLabels, Gauge>,
    pub decision_seconds: Histogram,
    pub binds_in_flight: Gauge,
    pub binds: Family<BindLabels, Counter>,
    pub writes: Family<WriteLabels, Counter>,
    pub watch_restarts: Family<WatchLabels, Counter>,
    pub malformed: Family<KindLabels, Counter>,
}

impl Families {
    /// Registers them. A counter's name is given without `_total`, which is added when it is written out.
    pub fn new(registry: &mut Registry) -> Self {
        let build = Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION") });
        registry.register("gpu_scheduler_build", "The program that runs", build);
        let families = Self {
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(attempt_buckets),
            pending: Family::default(),
            pod_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            sli_seconds: Family::new_with_constructor(sli_buckets),
            incoming: Family::default(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            algorithm_seconds: attempt_buckets(),
            cache: Family::default(),
            leader: Family::default(),
            decision_seconds: decision_buckets(),
            binds_in_flight: Gauge::default(),
            binds: Family::default(),
            writes: Family::default(),
            watch_restarts: Family::default(),
            malformed: Family::default(),
        };
        families.register_as_kube_scheduler(registry);
        families.register_own(registry);
        families
    }

    fn register_as_kube_scheduler(&self, registry: &mut Registry) {
        registry.register(
            "scheduler_schedule_attempts",
            "Attempts to schedule a pod, by result",
            self.attempts.clone(),
        );
        registry.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt: deciding and binding",
            self.attempt_seconds.clone(),
        );
        registry.register("scheduler_pending_pods", "Pods that wait, by part of the queue", self.pending.clone());
        registry.register(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound",
            self.pod_attempts.clone(),
        );
        registry.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's creation until it was bound, by attempts",
            self.sli_seconds.clone(),
        );
        registry.register(
            "scheduler_queue_incoming_pods",
            "Pods that came into a part of the queue",
            self.incoming.clone(),
        );
        registry.register(
            "scheduler_preemption_attempts",
            "Times that a pod that fits nowhere looked for others that could make room",
            self.preemption_attempts.clone(),
        );
        registry.register(
            "scheduler_preemption_victims",
            "Pods that are evicted for one",
            self.preemption_victims.clone(),
        );
        registry.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time of a decision alone",
            self.algorithm_seconds.clone(),
        );
        registry.register("scheduler_cache_size", "Nodes, pods and assumed pods in memory", self.cache.clone());
        registry.register(
            "leader_election_master_status",
            "1 on the process that holds the lease, else 0",
            self.leader.clone(),
        );
    }

    fn register_own(&self, registry: &mut Registry) {
        registry.register(
            "gpu_scheduler_decision_duration_seconds",
            "Time of a decision alone, in fine steps",
            self.decision_seconds.clone(),
        );
        registry.register(
            "gpu_scheduler_binds_in_flight",
            "Binds that wait for the API server",
            self.binds_in_flight.clone(),
        );
        registry.register("gpu_scheduler_binds", "Binds, by how they ended", self.binds.clone());
        registry.register(
            "gpu_scheduler_api_writes",
            "Writes to the API server, by how they ended",
            self.writes.clone(),
        );
        registry.register(
            "gpu_scheduler_watch_restarts",
            "Watches that broke off and began again",
            self.watch_restarts.clone(),
        );
        registry.register("gpu_scheduler_malformed_objects", "Objects that made no sense", self.malformed.clone());
    }
}

/// As kube-scheduler has them: 1 ms to 16 s.
fn attempt_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// As kube-scheduler has them: 10 ms to 87 min.
fn sli_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

/// 1 µs to 0.5 s: a decision of ours is faster than kube-scheduler's first bucket.
fn decision_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_001, 2.0, 20))
}
