//! A node whose GPU memory is full or empty is good, half full is bad.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::plugins::published_points;

/// Score of a node that reports no GPU memory.
const UNKNOWN: i64 = 50;

/// `fragmentation = 2 * min(u, 1 - u)` of the memory use u after placement; `score = 100 * (1 - fragmentation)`.
#[derive(Debug, Clone, Copy)]
pub struct SimpleFragmentation;

impl Score for SimpleFragmentation {
    fn name(&self) -> PluginName {
        "SimpleFragmentation"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let cards = &placement.after.cards;
        let sum = |part: fn(&crate::ledger::CardRoom) -> u64| cards.iter().map(part).fold(0_u64, u64::saturating_add);
        let total = sum(|c| c.total.0);
        let free = sum(|c| c.free.0);
        published_points(points(total.saturating_sub(free), total))
    }
}

fn points(used: u64, total: u64) -> i64 {
    if total == 0 {
        return UNKNOWN;
    }
    let (used, total) = (i128::from(used.min(total)), i128::from(total));
    let fragmentation = 2 * used.min(total - used);
    i64::try_from(100 * (total - fragmentation) / total).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::points;

    #[test]
    fn full_or_empty_is_good() {
        for (used, total, expected) in [
            (0, 80, 100),
            (80, 80, 100),
            (40, 80, 0),
            (20, 80, 50),
            (60, 80, 50),
            (90, 80, 100),
            (0, 0, 50),
            (1, 3, 33),
        ] {
            assert_eq!(points(used, total), expected, "{used} of {total}");
        }
    }
}
