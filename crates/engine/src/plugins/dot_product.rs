//! The smallest dot product of what is asked and what is free.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::plugins::published_points;

/// `DotProd` of the FGD study.
#[derive(Debug, Clone, Copy)]
pub struct DotProduct;

impl Score for DotProduct {
    fn name(&self) -> PluginName {
        "DotProduct"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// `100 * (1 - (cpu asked * cpu free + gpu asked * gpu free) / 2)`, all normalised by the largest node.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let largest = placement.state.largest();
        let (max_cpu, max_gpu) = (i128::from(largest.cpu.max(1)), i128::from(largest.gpu.max(1)));
        let asked_cpu = i128::from(placement.class.spec.charge.requests.cpu);
        let free_cpu = i128::from(placement.before.cpu.max(0));
        let free_gpu = i128::from(placement.before.idle().0);
        let asked_gpu = free_gpu - i128::from(placement.after.idle().0);
        // Over the common denominator (max_cpu * max_gpu)^2.
        let product = asked_cpu * free_cpu * max_gpu * max_gpu + asked_gpu * free_gpu * max_cpu * max_cpu;
        let whole = 2 * max_cpu * max_cpu * max_gpu * max_gpu;
        let points = 100 * (whole - product) / whole;
        published_points(i64::try_from(points).unwrap_or(0))
    }
    fn epoch(&self, state: &crate::state::State) -> u64 {
        state.largest_version()
    }
}
