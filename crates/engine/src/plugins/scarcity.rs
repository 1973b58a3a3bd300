//! What others need more: shadow-price packing's third term, constant over a group of alike nodes.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::model::GpuShape;
use crate::prices::ONE;
use crate::state::{Class, GroupId, Shape, State};

/// What a card costs where the claim on its group is a fair part: one card and a half.
const CLAIM: i128 = 1500;
/// The strongest claim that counts.
const MAX_CLAIM: i64 = 3 * ONE;
/// Weight of CPU taken from idle GPUs, in thousandths.
const CPU: i128 = 300;
/// A pod without GPU prefers the fullest node: its free CPU counts as a twelfth of the GPU that it feeds.
const FULLNESS: i128 = 12;

/// `Scarcity`: GPU pods pay for groups that those claim who can use little else; pods without GPU pay for CPU that
/// idle GPUs need.
#[derive(Debug, Clone, Copy)]
pub struct Scarcity;

impl Score for Scarcity {
    fn name(&self) -> PluginName {
        "Scarcity"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// The part that differs within a group: free CPU, for pods without GPU.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let rate = i128::from(placement.state.prices().learned().cpu_per_gpu());
        if placement.class.spec.shape != GpuShape::None || rate == 0 {
            return 0;
        }
        let fed = i128::from(placement.after.cpu.max(0)) * 1000 * i128::from(ONE) / rate;
        i64::try_from(fed / FULLNESS).unwrap_or(i64::MAX / 4)
    }
    fn group_cost(&self, state: &State, class: &Class, group: GroupId) -> i64 {
        let prices = state.prices();
        let shape = Shape::of(&class.spec);
        let cards = match shape.gpu {
            GpuShape::Cards(count) | GpuShape::Share { count, .. } => count,
            GpuShape::Fixed(_) => return 0,
            GpuShape::None => {
                let rate = i128::from(prices.learned().cpu_per_gpu().max(1));
                let gpu = i128::from(shape.cpu) * 1000 * i128::from(ONE) / rate;
                let cost = gpu * CPU / 1000 * i128::from(prices.cpu_scarcity(group)) / i128::from(ONE);
                return i64::try_from(cost).unwrap_or(i64::MAX / 4);
            }
        };
        let claim = prices.claim(group);
        // The square, capped: a claim below its fair part hardly counts, one above it soon does.
        let squared = (i128::from(claim) * i128::from(claim) / i128::from(ONE)).min(i128::from(MAX_CLAIM));
        let price = i128::from(price(state, &shape, group));
        let cost = CLAIM * 1000 * i128::from(cards) * price / i128::from(ONE) * squared / i128::from(ONE);
        i64::try_from(cost).unwrap_or(i64::MAX / 4)
    }
    fn prices_groups(&self) -> bool {
        true
    }
    fn same_on_twins(&self, _class: &Class) -> bool {
        true
    }
    fn epoch(&self, state: &State) -> u64 {
        state.prices().version()
    }
    fn wants_prices(&self) -> bool {
        true
    }
}

/// The price of the shape's part of a card of the group.
fn price(state: &State, shape: &Shape, group: GroupId) -> i64 {
    let cards = &state.groups().get(group).cards;
    let wanted = state.models().matching(shape.pattern);
    let total = cards.iter().find(|(model, _)| wanted.contains(*model)).map(|(_, total)| *total).unwrap_or_default();
    state.prices().learned().price(shape, total).unwrap_or(ONE)
}
