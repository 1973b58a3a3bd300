//! Several free cards on one node are worth more than the same cards apart: requests for several need them there.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::Headroom;
use crate::model::{MilliGpu, mul_div};
use crate::prices::{Learned, ONE};
use crate::state::{Class, State};

/// Weight of free cards that requests for several could not use, in thousandths.
const WEIGHT: i64 = 1500;
/// What a mean stay more costs until a node is empty: so many times the cards that are asked for in blocks.
const DRAIN: i64 = 10;

/// `Blocks`: for every size k of requests for several cards, the free cards of the node that do not make up a
/// block of k, weighted by the part of all demand that asks for k, and by how much pods come and go: where they
/// only come every block is used up in the end, where they go too a broken one heals by chance alone. Where demand is
/// heavy in memory and in compute, a card is free only once two have left it, so the node's draining counts too.
#[derive(Debug, Clone, Copy)]
pub struct Blocks;

impl Score for Blocks {
    fn name(&self) -> PluginName {
        "Blocks"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let learned = placement.state.prices().learned();
        let broken = broken(learned, placement.after) - broken(learned, placement.before);
        let broken = broken * WEIGHT / 1000;
        (broken + longer_drain(placement)) * (learned.turnover() / 1000) / 1000
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

/// In thousandths of a milli-GPU.
fn broken(learned: &Learned, node: &Headroom) -> i64 {
    let free = node.cards.iter().filter(|c| c.idle == MilliGpu::CARD).count() as u64;
    let left_over = |(cards, part): &(u32, i64)| {
        mul_div(free % u64::from(*cards) * 1_000_000, part.cast_unsigned(), ONE.cast_unsigned())
    };
    learned.blocks().iter().map(left_over).sum::<u64>().cast_signed()
}

/// The last of n pods leaves after 1 + 1/2 + ... + 1/n mean stays: one more on the node lengthens that by 1/(n + 1),
/// which is much where few are left. In thousandths of a milli-GPU.
fn longer_drain(placement: &Scoring<'_>) -> i64 {
    let learned = placement.state.prices().learned();
    if !learned.counts_apart() || placement.placement.containers.is_empty() {
        return 0;
    }
    let cards = placement.node.ledger().cards();
    let asked = learned.blocks().iter().filter(|(size, _)| *size as usize <= cards.len());
    let asked: i64 = asked.map(|(size, part)| i64::from(*size) * part).sum();
    let holders: usize = cards.iter().map(|c| c.holdings().len()).sum();
    DRAIN * asked / (holders as i64 + 1)
}
