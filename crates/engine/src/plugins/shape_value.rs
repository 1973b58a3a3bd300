//! A share should leave of its card what others can still fill: shadow-price packing's second term.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::{CardPeak, HoldKind};
use crate::model::{Mib, Percent, share_size};
use crate::prices::{PlaneValues, free_of};
use crate::state::{Class, State};

/// What a card's worth of lost filling costs: four cards. It outweighs every other term.
const WEIGHT: i64 = 4000;
/// Weight of what stays idle on the card, in thousandths: best fit.
const REMAINDER: i64 = 500;

/// `ShapeValue`: the worth that the card loses beyond the price of the request, and what stays idle on it. Where
/// demand is heavy in memory and in compute, both count apart, and the card is taken for all that it is worth.
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
        if !learned.counts_apart() {
            let grants = placement.placement.containers.iter().flat_map(|c| &c.grants);
            let shares = grants.filter(|g| g.kind == HoldKind::Share);
            return shares.map(|g| cost_by_size(placement, g.card, g.memory, g.compute)).sum();
        }
        let peaks = placement.placement.peaks(&placement.class.spec.gpu);
        let shares = peaks.iter().filter(|p| p.kind == HoldKind::Share);
        let cost = |share: &CardPeak| match learned.plane(placement.before.cards[usize::from(share.card)].total) {
            Some(plane) => cost_apart(placement, plane, share),
            None => cost_by_size(placement, share.card, share.memory, share.compute),
        };
        shares.map(cost).sum()
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

/// What a share of one size costs on its card, in millionths of a card: these are thousandths of a milli-GPU.
fn cost_by_size(placement: &Scoring<'_>, card: u16, memory: Mib, compute: Percent) -> i64 {
    let (before, after) = (&placement.before.cards[usize::from(card)], &placement.after.cards[usize::from(card)]);
    let lost = placement.state.prices().learned().values(before.total).map_or(0, |values| {
        let price = values.price(share_size(memory, compute, before.total));
        values.worth(before.idle) - values.worth(after.idle) - price
    });
    lost * (WEIGHT / 1000) + i64::from(after.idle.0) * REMAINDER
}

/// What a share costs on its card, memory and compute apart: all that the card was worth, beyond the price. So the
/// least valuable card that does is filled up. By their prices alone two that complete each other cost as little
/// on two opened cards as on one; but then either holds a card while it waits for another to complete it.
fn cost_apart(placement: &Scoring<'_>, plane: &PlaneValues, share: &CardPeak) -> i64 {
    let at = usize::from(share.card);
    let total = placement.before.cards[at].total;
    let (memory, compute) = free_of(placement.node.ledger().cards()[at].room(), total);
    let size = share_size(share.memory, Percent(0), total);
    let lost = plane.worth(memory, compute) - plane.price(size, share.compute);
    let left = memory.saturating_sub(size).0 + 10 * compute.saturating_sub(share.compute).0;
    lost * (WEIGHT / 1000) + i64::from(left / 2) * REMAINDER
}
