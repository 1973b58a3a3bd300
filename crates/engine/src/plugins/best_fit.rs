//! The node that is left fullest, over CPU and GPU alike.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::plugins::published_points;

/// `BestFit` of the FGD study.
#[derive(Debug, Clone, Copy)]
pub struct BestFit;

impl Score for BestFit {
    fn name(&self) -> PluginName {
        "BestFit"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// `trunc(100 * (1 - cpu left / largest cpu / 2 - gpu left / largest gpu / 2))`. The study writes the
    /// largest node of its cluster as constants (128 cores, 8 cards); here it is the cluster's own.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let largest = placement.state.largest();
        let (max_cpu, max_gpu) = (i128::from(largest.cpu.max(1)), i128::from(largest.gpu.max(1)));
        let left_cpu = i128::from(placement.after.cpu);
        let left_gpu = i128::from(placement.after.idle().0);
        let whole = 2 * max_cpu * max_gpu;
        let points = 100 * (whole - left_cpu * max_gpu - left_gpu * max_cpu) / whole;
        published_points(i64::try_from(points).unwrap_or(0))
    }
    fn epoch(&self, state: &crate::state::State) -> u64 {
        state.largest_version()
    }
}
