//! How fast was decided.

use std::time::Duration;

use serde::Serialize;

/// Wall time of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decisions {
    /// How many.
    pub count: u64,
    /// Per second of deciding.
    pub per_second: f64,
    /// Median, in microseconds.
    #[serde(rename = "p50us")]
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    #[serde(rename = "p99us")]
    pub p99_us: f64,
}

impl Decisions {
    /// Each time is one decision.
    pub(crate) fn of(times: Vec<Duration>) -> Self {
        let count = times.len() as u64;
        Self::counted(count, times)
    }

    /// So many decisions in these times, each of one event.
    pub(crate) fn counted(count: u64, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let total: Duration = times.iter().sum();
        let at = |permille: usize| -> f64 {
            let index = (times.len() * permille / 1000).min(times.len().saturating_sub(1));
            times.get(index).map_or(0.0, |t| (t.as_secs_f64() * 1e7).round() / 10.0)
        };
        let per_second = if total.is_zero() { 0.0 } else { count as f64 / total.as_secs_f64() };
        Self { count, per_second: per_second.round(), p50_us: at(500), p99_us: at(990) }
    }
}
