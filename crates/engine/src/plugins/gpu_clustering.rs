//! Like with like: pods that ask for GPUs in the same way go to the same nodes.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::GpuUse;
use crate::model::GpuShape;
use crate::plugins::published_points;

/// `GpuClustering` of the FGD study.
#[derive(Debug, Clone, Copy)]
pub struct GpuClustering;

impl Score for GpuClustering {
    fn name(&self) -> PluginName {
        "GpuClustering"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// The integer part of `25 * (largest - left) / largest`, plus 75 if the node's only kind of GPU pod is
    /// this one's, 50 if it is among several, 25 if the node has none.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let kind = match placement.class.spec.shape {
            GpuShape::None => return published_points(0),
            GpuShape::Cards(count) => GpuUse::Whole(count),
            GpuShape::Share { .. } | GpuShape::Fixed(_) => GpuUse::Share,
        };
        let uses = placement.node.ledger().uses();
        let like = match uses.as_slice() {
            [] => 25,
            [only] if *only == kind => 75,
            several if several.contains(&kind) => 50,
            _ => 0,
        };
        let largest = placement.state.largest().gpu.max(1);
        let left = i64::from(placement.before.idle().0);
        published_points(like + 25 * (largest - left) / largest)
    }
    fn epoch(&self, state: &crate::state::State) -> u64 {
        state.largest_version()
    }
}
