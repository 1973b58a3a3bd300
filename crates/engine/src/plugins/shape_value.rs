//! A share should leave of its card what others can still fill: shadow-price packing's second term.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::HoldKind;
use crate::model::share_size;
use crate::state::{Class, State};

/// What a card's worth of lost filling costs: four cards. It outweighs every other term.
const WEIGHT: i64 = 4000;
/// Weight of what stays idle on the card, in thousandths: best fit.
const REMAINDER: i64 = 500;

/// `ShapeValue`: the worth that the card loses beyond the price of the request, and what stays idle on it.
#[derive(Debug, Clone, Copy)]
pub struct ShapeValue;

impl Score for ShapeValue {
    fn name(&self) -> PluginName {
        "ShapeValue"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let learned = placement.state.prices().learned();
        let (mut lost, mut idle) = (0_i64, 0_i64);
        for grant in placement.placement.containers.iter().flat_map(|c| &c.grants).filter(|g| g.kind == HoldKind::Share)
        {
            let at = usize::from(grant.card);
            let (before, after) = (&placement.before.cards[at], &placement.after.cards[at]);
            if let Some(values) = learned.values(before.total) {
                let price = values.price(share_size(grant.memory, grant.compute, before.total));
                lost += values.worth(before.idle) - values.worth(after.idle) - price;
            }
            idle += i64::from(after.idle.0);
        }
        // Millionths of a card are thousandths of a milli-GPU.
        lost * (WEIGHT / 1000) + idle * REMAINDER
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
