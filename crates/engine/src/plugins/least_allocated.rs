//! The emptier the node, the better: kube-scheduler's default `NodeResourcesFit` score.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};

/// `NodeResourcesFit` with the strategy `LeastAllocated` over CPU and memory.
#[derive(Debug, Clone, Copy)]
pub struct LeastAllocated;

impl Score for LeastAllocated {
    fn name(&self) -> PluginName {
        "NodeResourcesFit"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Points
    }
    /// Mean of the free parts, in percent; a resource that the node does not have is left out.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let all = placement.facts.allocatable();
        let (cpu, memory) = placement.node.non_zero_requested();
        let charge = &placement.class.spec.charge;
        let parts = [(all.cpu, cpu + charge.incoming_cpu), (all.memory, memory + charge.incoming_memory)];
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (capacity, requested) in parts.into_iter().filter(|(capacity, _)| *capacity > 0) {
            let free = capacity.saturating_sub(requested).max(0);
            sum += i64::try_from(i128::from(free) * 100 / i128::from(capacity)).unwrap_or(100);
            weights += 1;
        }
        if weights == 0 { 0 } else { sum / weights }
    }
}
