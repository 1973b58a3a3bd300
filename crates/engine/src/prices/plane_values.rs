//! What the free memory and the free compute of a card are worth together.
//!
//! Where some shares are heavy in memory and others in compute, one number for the size cannot see that two of
//! them fill a card between them. Here a piece has two sides, and so has what is idle.

use std::collections::BTreeMap;

use crate::ledger::Room;
use crate::model::{Mib, MilliGpu, Percent, share_size};
use crate::prices::ONE;
use crate::prices::cutting_stock::{self, Fillings, UNIT};
use crate::prices::device_values::{CELLS, MAX_SIZES, cells_up};

/// Cells of a side, nothing included.
const SIDE: usize = CELLS + 1;
/// The part of the demand that must be heavy in either way, in thousandths: below it the other dimension rules,
/// and a size is one number.
const HEAVY: u128 = 40;
/// How far the demand is tilted, in thousandths of what a piece has more of one dimension than of the other. What
/// runs is never quite what arrives: prices for a balance that is never there would jump at every small surplus.
const TILT: i128 = 250;

/// A piece's or a remainder's memory and compute, in hundredths of a card.
type Cells = (usize, usize);

/// Values of free memory and compute of a card, in millionths of a card.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlaneValues {
    /// By free cells of memory and compute.
    worth: Vec<i64>,
    /// By size, in its order.
    price: Vec<(Cells, i64)>,
}

impl PlaneValues {
    /// From the demand for each size on cards of one memory: memory, compute and how much is asked of it. `None`
    /// where one dimension rules. Two linear programs, `O(sizes^3)` and `O(sizes * cells^2)` a step.
    pub fn solve(demand: impl IntoIterator<Item = ((MilliGpu, Percent), u128)>) -> Option<Self> {
        let mut by_size: BTreeMap<Cells, u128> = BTreeMap::new();
        for ((memory, compute), amount) in demand {
            *by_size.entry(size_cells(memory, compute)).or_default() += amount;
        }
        let part = |heavy: fn(&Cells) -> bool| by_size.iter().filter(|(s, _)| heavy(s)).map(|(_, n)| *n).sum::<u128>();
        let least = part(|_| true) * HEAVY / 1000;
        if part(|(memory, compute)| memory > compute) <= least || part(|(memory, compute)| compute > memory) <= least {
            return None;
        }
        let mut sizes: Vec<(Cells, u128)> = by_size.into_iter().collect();
        sizes.sort_by_key(|(cells, amount)| (std::cmp::Reverse(*amount), *cells));
        sizes.truncate(MAX_SIZES);
        sizes.sort_unstable();
        let amounts: Vec<u128> = sizes.iter().map(|(_, amount)| *amount).collect();
        let sizes: Vec<Cells> = sizes.into_iter().map(|(cells, _)| cells).collect();
        let towards_memory = cutting_stock::prices(&Sizes(&sizes), &tilted(&sizes, &amounts, TILT));
        let towards_compute = cutting_stock::prices(&Sizes(&sizes), &tilted(&sizes, &amounts, -TILT));
        // The middle of two sets of prices under which no filling is worth more than a card is another one.
        let prices: Vec<i128> =
            towards_memory.iter().zip(&towards_compute).map(|(a, b)| i128::midpoint(*a, *b)).collect();
        Some(Self::from_prices(&sizes, &prices))
    }

    fn from_prices(sizes: &[Cells], prices: &[i128]) -> Self {
        let worth = fill(sizes, prices);
        // A whole card is always worth a card, whatever is asked of parts.
        let scale = i128::from(worth[at(CELLS, CELLS)].max(1));
        let scaled = |value: i128| i64::try_from(value * i128::from(ONE) / scale).unwrap_or(ONE);
        let price = sizes.iter().zip(prices).map(|(size, price)| (*size, scaled(*price))).collect();
        let mut worth: Vec<i64> = worth.into_iter().map(|value| scaled(i128::from(value))).collect();
        worth[at(CELLS, CELLS)] = ONE;
        Self { worth, price }
    }

    /// The worth of so much idle memory and compute on one card; rounds down.
    pub fn worth(&self, memory: MilliGpu, compute: Percent) -> i64 {
        self.worth[at((memory.0 / 10) as usize, compute.0 as usize)]
    }

    /// The price of a request of this size: what it is worth to those who ask for it.
    pub fn price(&self, memory: MilliGpu, compute: Percent) -> i64 {
        let size = size_cells(memory, compute);
        match self.price.binary_search_by_key(&size, |(cells, _)| *cells) {
            Ok(found) => self.price[found].1,
            Err(_) => self.worth[at(size.0, size.1)],
        }
    }

    /// All values, in a fixed order.
    pub(super) fn all(&self) -> impl Iterator<Item = i64> {
        self.worth.iter().copied()
    }
}

/// What is free of a card that takes shares: memory in thousandths, rounded down, and compute.
pub(crate) fn free_of(room: &Room, total: Mib) -> (MilliGpu, Percent) {
    // Foreign use within the tolerance leaves a card whole.
    let taken = if room.whole { Mib(0) } else { total.saturating_sub(room.memory) };
    (MilliGpu::CARD.saturating_sub(share_size(taken, Percent(0), total)), room.compute)
}

fn size_cells(memory: MilliGpu, compute: Percent) -> Cells {
    (cells_up(memory), (compute.0 as usize).min(CELLS))
}

fn at(memory: usize, compute: usize) -> usize {
    memory.min(CELLS) * SIDE + compute.min(CELLS)
}

/// Each size's part of the demand, in the solver's unit, with `tilt` thousandths more of what is heavy in memory and
/// as much less of what is heavy in compute.
fn tilted(sizes: &[Cells], amounts: &[u128], tilt: i128) -> Vec<i128> {
    let total = amounts.iter().sum::<u128>().max(1);
    let part = |amount: u128| i128::try_from(amount.saturating_mul(UNIT as u128) / total).unwrap_or(UNIT);
    let lean = |(memory, compute): &Cells| *memory as i128 - *compute as i128;
    sizes.iter().zip(amounts).map(|(size, n)| part(*n) / 100_000 * (100_000 + tilt * lean(size))).collect()
}

/// Fillings of a card by pieces that add up to at most a card in both dimensions.
struct Sizes<'a>(&'a [Cells]);

impl Fillings for Sizes<'_> {
    fn alone(&self, size: usize) -> i128 {
        let (memory, compute) = self.0[size];
        (CELLS / memory.max(compute).max(1)) as i128
    }
    fn worth_more(&self, prices: &[i128], limit: i128) -> Option<Vec<i128>> {
        let worth = fill(self.0, prices);
        if i128::from(worth[at(CELLS, CELLS)]) <= limit {
            return None;
        }
        let mut pieces = vec![0; self.0.len()];
        let (mut memory, mut compute) = (CELLS, CELLS);
        while worth[at(memory, compute)] > 0 {
            let here = worth[at(memory, compute)];
            let last = self.0.iter().zip(prices).position(|((m, c), price)| {
                *m <= memory && *c <= compute && worth[at(memory - m, compute - c)] + clamp(*price) == here
            });
            // Whatever is worth something ends in a piece, and every piece takes memory.
            let size = last.expect("a filling is made of pieces");
            pieces[size] += 1;
            memory -= self.0[size].0;
            compute -= self.0[size].1;
        }
        Some(pieces)
    }
}

/// Prices stay near a card; a bound keeps sums of a hundred of them within the small integers that are fast.
fn clamp(price: i128) -> i64 {
    price.clamp(0, 1000 * UNIT) as i64
}

/// The best filling of every remainder by sizes with prices. A size after the other, a row after the other: a piece
/// takes at least a cell of memory, so it is added to rows that have all of its kind already.
fn fill(sizes: &[Cells], prices: &[i128]) -> Vec<i64> {
    let mut worth = vec![0_i64; SIDE * SIDE];
    for ((m, c), price) in sizes.iter().zip(prices) {
        let price = clamp(*price);
        for memory in *m..SIDE {
            let (below, row) = worth.split_at_mut(memory * SIDE);
            let from = &below[(memory - m) * SIDE..][..SIDE - c];
            for (worth, rest) in row[*c..SIDE].iter_mut().zip(from) {
                *worth = (*worth).max(rest + price);
            }
        }
    }
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(demand: &[(u32, u32, u128)]) -> Option<PlaneValues> {
        PlaneValues::solve(demand.iter().map(|(memory, compute, n)| ((MilliGpu(*memory), Percent(*compute)), *n)))
    }

    fn near(value: i64, expected: i64) -> bool {
        (value - expected).abs() <= 10
    }

    #[test]
    fn one_dimension_that_rules_needs_no_plane() {
        for (demand, planar) in [
            (vec![], false),
            (vec![(500, 0, 10), (1000, 100, 10)], false),
            (vec![(500, 50, 10), (300, 20, 10)], false),
            (vec![(200, 60, 10), (1000, 100, 10)], false),
            (vec![(500, 10, 96), (200, 60, 4)], false),
            (vec![(500, 10, 95), (200, 60, 5)], true),
        ] {
            assert_eq!(values(&demand).is_some(), planar, "{demand:?}");
        }
    }

    #[test]
    fn those_that_complete_each_other_share_the_card() {
        let v = values(&[(800, 20, 10), (200, 80, 10), (1000, 100, 10)]).expect("both dimensions count");
        let heavy = |memory, compute| v.price(MilliGpu(memory), Percent(compute));
        assert!(near(heavy(800, 20), ONE / 2) && near(heavy(200, 80), ONE / 2) && near(heavy(1000, 100), ONE));
        for (memory, compute, expected) in [
            (1000, 100, ONE),
            // Beside one of either kind the other fits.
            (200, 80, ONE / 2),
            (800, 20, ONE / 2),
            // As much of both is room for neither: a size of one number would call it 700.
            (700, 70, 0),
            (190, 100, 0),
        ] {
            assert!(near(v.worth(MilliGpu(memory), Percent(compute)), expected), "{memory} and {compute} %");
        }
    }

    #[test]
    fn what_there_is_too_much_of_pays() {
        // Four in five are heavy in memory: a card goes to each of them, whoever joins it.
        let v = values(&[(800, 20, 40), (200, 80, 10)]).expect("both dimensions count");
        assert!(near(v.price(MilliGpu(800), Percent(20)), ONE) && near(v.price(MilliGpu(200), Percent(80)), 0));
    }

    proptest::proptest! {
        /// No filling is worth more than a card, and no worth falls as more is idle.
        #[test]
        fn prices_are_feasible(demand in proptest::collection::vec((1_u32..=1000, 0_u32..=100, 1_u128..1000), 2..12)) {
            let Some(v) = values(&demand) else { return Ok(()) };
            let sizes: Vec<Cells> = v.price.iter().map(|(cells, _)| *cells).collect();
            let prices: Vec<i128> = v.price.iter().map(|(_, p)| i128::from(*p)).collect();
            let best = fill(&sizes, &prices)[at(CELLS, CELLS)];
            proptest::prop_assert!(best <= ONE + 100, "{best}");
            for cells in 1..=CELLS {
                for other in 0..=CELLS {
                    proptest::prop_assert!(v.worth[at(cells, other)] >= v.worth[at(cells - 1, other)]);
                    proptest::prop_assert!(v.worth[at(other, cells)] >= v.worth[at(other, cells - 1)]);
                }
            }
        }
    }
}
