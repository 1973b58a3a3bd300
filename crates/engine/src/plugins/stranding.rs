//! GPU that no CPU is left for is lost: shadow-price packing's first term.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::Headroom;
use crate::model::mul_div;
use crate::prices::{Learned, ONE};
use crate::state::{Class, State};

/// Weight of GPU that the next GPU pod could not use, in thousandths.
const NEXT: i64 = 300;
/// Weight of what stays idle on the node, in ten-thousandths: among equals the fullest.
const IDLE: i64 = 75;

/// `Stranding`: what the placement strands for good (CPU runs out before GPU), what the next GPU pod could not
/// use for want of CPU, and a little for what stays idle.
#[derive(Debug, Clone, Copy)]
pub struct Stranding;

impl Score for Stranding {
    fn name(&self) -> PluginName {
        "Stranding"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let learned = placement.state.prices().learned();
        let (before, after) = (placement.before, placement.after);
        let stranded = learned.stranded(after.cpu, after.idle()) - learned.stranded(before.cpu, before.idle());
        let next = unusable(learned, after) - unusable(learned, before);
        stranded + next * NEXT / 1000 + i64::from(after.idle().0) * 1000 * IDLE / 10_000
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

/// Idle GPU times the part of GPU pods that the free CPU does not serve, in thousandths of a milli-GPU.
fn unusable(learned: &Learned, node: &Headroom) -> i64 {
    let unserved = (ONE - learned.served_by(node.cpu)).max(0).cast_unsigned();
    mul_div(u64::from(node.idle().0) * 1000, unserved, ONE.cast_unsigned()).cast_signed()
}
