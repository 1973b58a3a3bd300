//! What came of a run. The JSON forms are promises (see `docs/simulate.md`).

mod comparison;
mod decisions;
mod fill;
mod queueing;
mod steady;
mod summary;

use serde::Serialize;

pub use comparison::Comparison;
pub(crate) use comparison::by_policy;
pub use decisions::Decisions;
pub use fill::{Landmark, Load, Point, Run};
pub use queueing::{ClusterSize, JobCounts, QueuePoint, QueueRun, Waiting};
pub use steady::{Refused, SteadyPoint, SteadyRun};
pub use summary::Summary;

/// Demand that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrived {
    /// Pods.
    pub pods: u64,
    /// Thousandths of a card.
    pub gpu_milli: u64,
}

/// The cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Thousandths of a card.
    pub gpu_milli: u64,
}

/// The result of one run of any kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// A cluster filled until nothing fits.
    Fill(Run),
    /// A steady state of arrivals and endings.
    Steady(SteadyRun),
    /// Jobs that wait in a queue.
    Queue(QueueRun),
}

impl Outcome {
    /// The policy.
    pub fn policy(&self) -> &str {
        match self {
            Self::Fill(run) => &run.policy,
            Self::Steady(run) => &run.policy,
            Self::Queue(run) => &run.policy,
        }
    }

    /// The run, if it is of this kind.
    pub fn fill(&self) -> Option<&Run> {
        if let Self::Fill(run) = self { Some(run) } else { None }
    }

    /// The run, if it is of this kind.
    pub fn steady(&self) -> Option<&SteadyRun> {
        if let Self::Steady(run) = self { Some(run) } else { None }
    }

    /// The run, if it is of this kind.
    pub fn queue(&self) -> Option<&QueueRun> {
        if let Self::Queue(run) = self { Some(run) } else { None }
    }

    /// How fast it was decided.
    pub fn decisions(&self) -> Decisions {
        match self {
            Self::Fill(run) => run.decisions,
            Self::Steady(run) => run.decisions,
            Self::Queue(run) => run.decisions,
        }
    }

    /// The same without what differs between two runs of the same: the timing.
    #[must_use]
    pub fn without_timing(mut self) -> Self {
        let decisions = match &mut self {
            Self::Fill(run) => &mut run.decisions,
            Self::Steady(run) => &mut run.decisions,
            Self::Queue(run) => &mut run.decisions,
        };
        *decisions = Decisions { count: decisions.count, ..Decisions::default() };
        self
    }
}

/// To four decimals, so that reports are short and stable.
pub(crate) fn round(x: f64) -> f64 {
    (x * 10_000.0).round() / 10_000.0
}

/// A part in percent; nothing of nothing is 0.
pub(crate) fn percent(part: f64, of: f64) -> f64 {
    if of > 0.0 { round(100.0 * part / of) } else { 0.0 }
}
