//! Jobs that wait in a queue until they fit.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Capacity, Decisions, round};

/// One policy on a stream of jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRun {
    /// The trace.
    pub trace: String,
    /// How it was replayed: `queue`.
    pub protocol: &'static str,
    /// The policy.
    pub policy: String,
    /// Always null: the order is the trace's.
    pub seed: Option<u64>,
    /// The cluster.
    pub cluster: ClusterSize,
    /// Offered demand as a part of the cluster.
    pub load: f64,
    /// What there is.
    pub capacity: Capacity,
    /// What became of the jobs.
    pub jobs: JobCounts,
    /// Cards held, time mean while jobs arrive.
    pub utilisation_pct: f64,
    /// Cards held, time mean until the last job ends.
    pub utilisation_to_end_pct: f64,
    /// Of the cards held while jobs arrive, those that a job holds before its last pod has started.
    pub held_waiting_pct: f64,
    /// From the first arrival to the last.
    pub arrival_span_seconds: f64,
    /// From the first arrival to the last end.
    pub makespan_seconds: f64,
    /// From arrival to the start of a job's last pod, all jobs.
    pub waiting: Waiting,
    /// The same by cards of the job: `1`, `2-4`, `5-8`, `>8`.
    pub waiting_by_size: BTreeMap<&'static str, Waiting>,
    /// A hundred points over the time of arrivals.
    pub curve: Vec<QueuePoint>,
    /// How fast.
    pub decisions: Decisions,
    /// Held after everything ended: 0, or something was lost.
    #[serde(skip)]
    pub left_over_milli: u64,
}

/// A cluster of equal nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSize {
    /// How many nodes.
    pub nodes: u32,
    /// Cards of each.
    pub cards_per_node: u32,
}

/// What became of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobCounts {
    /// Jobs that arrived.
    pub arrived: u64,
    /// Jobs that ran to their end.
    pub finished: u64,
    /// Jobs that waited for ever: each holds cards that another one waits for. Gangs will not.
    pub stuck: u64,
    /// Jobs that ask for more cards than there are; they are left out, and not in the load.
    pub too_large: u64,
}

/// How long jobs waited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Jobs that started.
    pub jobs: u64,
    /// Mean.
    pub mean_seconds: f64,
    /// Median.
    pub p50_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
    /// Longest.
    pub max_seconds: f64,
}

/// One hundredth of the time of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePoint {
    /// Its end, in percent of the time of arrivals.
    pub time_pct: f64,
    /// Cards held.
    pub utilisation_pct: f64,
    /// Cards that waiting pods ask for, in percent of the cluster.
    pub waiting_pct: f64,
}

impl Waiting {
    /// Of waits in milliseconds. Percentiles by the nearest rank.
    pub(crate) fn of(mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let seconds = |ms: u64| round(ms as f64 / 1000.0);
        let rank = |permille: usize| {
            let at = (waits.len() * permille).div_ceil(1000).saturating_sub(1);
            waits.get(at).map_or(0.0, |ms| seconds(*ms))
        };
        let total: u128 = waits.iter().map(|ms| u128::from(*ms)).sum();
        Self {
            jobs: waits.len() as u64,
            mean_seconds: round(total as f64 / waits.len().max(1) as f64 / 1000.0),
            p50_seconds: rank(500),
            p99_seconds: rank(990),
            max_seconds: waits.last().map_or(0.0, |ms| seconds(*ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_by_nearest_rank() {
        let waiting = Waiting::of((1..=100).map(|s| s * 1000).collect());
        assert_eq!((waiting.jobs, waiting.mean_seconds, waiting.max_seconds), (100, 50.5, 100.0));
        assert_eq!((waiting.p50_seconds, waiting.p99_seconds), (50.0, 99.0));
        assert_eq!(Waiting::of(Vec::new()), Waiting::default());
        assert_eq!(Waiting::of(vec![7]).p99_seconds, 0.007);
    }
}
