//! Used cards first, then free cards of used nodes, then free nodes.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::model::MilliGpu;
use crate::plugins::published_points;

/// `GpuPacking` of the FGD study.
#[derive(Debug, Clone, Copy)]
pub struct GpuPacking;

impl Score for GpuPacking {
    fn name(&self) -> PluginName {
        "GpuPacking"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// - All cards of the node free: `max(33 - n, n)` with n its cards.
    /// - The pod opens k idle cards of a used node: `max(50 - k, 33)`.
    /// - It fits on used cards: `max(100 - sum of (left * 100 / 1000) / 10, 50)`, left being what idles on
    ///   the card before the pod (the reading that reproduces the published curves).
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let cards = placement.before.cards.iter().zip(&placement.after.cards);
        let taken: Vec<(MilliGpu, MilliGpu)> =
            cards.filter(|(b, a)| b.idle != a.idle).map(|(b, a)| (b.idle, a.idle)).collect();
        if taken.is_empty() {
            return published_points(0); // no GPU asked
        }
        let total = i64::try_from(placement.before.cards.len()).unwrap_or(i64::MAX);
        let opened = i64::try_from(taken.iter().filter(|(b, _)| *b == MilliGpu::CARD).count()).unwrap_or(i64::MAX);
        let points = if placement.before.cards.iter().all(|c| c.idle == MilliGpu::CARD) {
            (33 - total).max(total)
        } else if opened > 0 {
            (50 - opened).max(33)
        } else {
            let left: i64 = taken.iter().map(|(b, _)| i64::from(b.0) * 100 / 1000).sum();
            (100 - left / 10).max(50)
        };
        published_points(points)
    }
}
