//! The more evenly CPU and memory are used, the better.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};

/// Parts are compared in billionths.
const UNIT: i128 = 1_000_000_000;

/// `NodeResourcesBalancedAllocation` over CPU and memory.
#[derive(Debug, Clone, Copy)]
pub struct NodeResourcesBalancedAllocation;

impl Score for NodeResourcesBalancedAllocation {
    fn name(&self) -> PluginName {
        "NodeResourcesBalancedAllocation"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Points
    }
    /// `50 + (50 + b(with the pod) - b(without it)) / 2`, where b is 100 times one minus the deviation of
    /// the used parts. A pod that asks for neither is not scored.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let (want, used) = (&placement.class.spec.charge.requests, placement.node.requested());
        if want.cpu == 0 && want.memory == 0 {
            return 0;
        }
        let all = placement.facts.allocatable();
        let with = balance([(used.cpu + want.cpu, all.cpu), (used.memory + want.memory, all.memory)]);
        let without = balance([(used.cpu, all.cpu), (used.memory, all.memory)]);
        50 + (50 + with - without) / 2
    }
}

/// For two parts the deviation is half their difference; for one it is nothing.
fn balance(parts: [(i64, i64); 2]) -> i64 {
    let part = |(used, all): (i64, i64)| (all > 0).then(|| (i128::from(used) * UNIT / i128::from(all)).min(UNIT));
    let deviation = match (part(parts[0]), part(parts[1])) {
        (Some(a), Some(b)) => (a - b).abs() / 2,
        _ => 0,
    };
    i64::try_from((UNIT - deviation) * 100 / UNIT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::balance;

    #[test]
    fn balances() {
        for (parts, expected) in [
            ([(0, 100), (0, 100)], 100),
            ([(50, 100), (50, 100)], 100),
            ([(100, 100), (0, 100)], 50),
            ([(75, 100), (25, 100)], 75),
            ([(200, 100), (0, 100)], 50), // no more than all
            ([(10, 0), (50, 100)], 100),
        ] {
            assert_eq!(balance(parts), expected, "{parts:?}");
        }
    }
}
