//! Any node that will do.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::model::NodeId;

/// A node drawn by a hash of seed, decision and node: random to look at, the same every time.
#[derive(Debug, Clone, Copy)]
pub struct RandomChoice {
    seed: u64,
}

impl RandomChoice {
    /// With this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }
}

impl Score for RandomChoice {
    fn name(&self) -> PluginName {
        "Random"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, _placement: &Scoring<'_>) -> i64 {
        0
    }
    fn per_decision(&self, decision: u64, node: NodeId) -> i64 {
        let node = node.index() as u64;
        // Positive and below the range where sums could saturate.
        (mix(mix(self.seed ^ mix(decision)) ^ node) >> 8) as i64
    }
    fn varies(&self) -> bool {
        true
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
