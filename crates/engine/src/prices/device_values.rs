//! What the idle part of a card is worth, by the requests that could still be filled into it.
//!
//! The dual of cutting stock: prices y for the sizes that are asked for, so that no filling of a card is
//! worth more than one card, and the demand as a whole is worth as much as possible. Solved by column
//! generation (Gilmore and Gomory, 1961) in fixed-point arithmetic with an order of its own for ties, so
//! that every machine finds the same of several optima.

use crate::model::MilliGpu;
use crate::prices::ONE;

/// Cells of a card: sizes are counted in hundredths.
const CELLS: usize = 100;
/// Thousandths of a card in a cell.
const CELL: u32 = 10;
/// Sizes that get a price of their own; rarer ones are worth what they displace.
const MAX_SIZES: usize = 32;
/// One, within the solver.
const UNIT: i128 = 1_000_000_000_000;
/// What counts as nothing within the solver.
const NEGLIGIBLE: i128 = UNIT / 10_000_000;
/// Steps of the solver; it needs a few per size.
const MAX_STEPS: usize = 1000;

/// Values of the parts of a card, in millionths of a card.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeviceValues {
    /// By free cells.
    worth: Vec<i64>,
    /// By size in cells; `None` for sizes without a price of their own.
    price: Vec<Option<i64>>,
}

impl Default for DeviceValues {
    /// Before anything is asked: a card is worth a card, a part of it nothing.
    fn default() -> Self {
        Self::solve(&[])
    }
}

impl DeviceValues {
    /// From the demand for each size: pairs of thousandths of a card and how much is asked of that size.
    pub fn solve(demand: &[(MilliGpu, u128)]) -> Self {
        let mut by_cell = [0_u128; CELLS + 1];
        for (size, amount) in demand {
            by_cell[cells_up(*size)] += amount;
        }
        let mut sizes: Vec<usize> = (1..=CELLS).filter(|cell| by_cell[*cell] > 0).collect();
        sizes.sort_by_key(|cell| (std::cmp::Reverse(by_cell[*cell]), *cell));
        sizes.truncate(MAX_SIZES);
        sizes.sort_unstable();
        let total: u128 = sizes.iter().map(|cell| by_cell[*cell]).sum::<u128>().max(1);
        let share = |cell: &usize| i128::try_from(by_cell[*cell].saturating_mul(UNIT as u128) / total).unwrap_or(UNIT);
        let demand: Vec<i128> = sizes.iter().map(share).collect();
        let prices = Solver::new(&sizes, &demand).run();
        Self::from_prices(&sizes, &prices)
    }

    fn from_prices(sizes: &[usize], prices: &[i128]) -> Self {
        let (worth, _) = fill(sizes, prices);
        // A whole card is always worth a card, whatever is asked of parts.
        let scale = worth[CELLS].max(1);
        let scaled = |value: i128| i64::try_from(value * i128::from(ONE) / scale).unwrap_or(ONE);
        let mut price = vec![None; CELLS + 1];
        for (size, value) in sizes.iter().zip(prices) {
            price[*size] = Some(scaled(*value));
        }
        let mut worth: Vec<i64> = worth.into_iter().map(scaled).collect();
        worth[CELLS] = ONE;
        Self { worth, price }
    }

    /// What the demand as a whole is worth at these prices, in millionths of the demand.
    pub(super) fn value_of(&self, demand: &[(MilliGpu, u128)]) -> u128 {
        let total: u128 = demand.iter().map(|(_, amount)| amount).sum();
        let worth = |(size, amount): &(MilliGpu, u128)| u128::try_from(self.price(*size)).unwrap_or(0) * amount;
        demand.iter().map(worth).sum::<u128>() / total.max(1)
    }

    /// The worth of so much idle on one card; rounds down.
    pub fn worth(&self, idle: MilliGpu) -> i64 {
        self.worth[((idle.0 / CELL) as usize).min(CELLS)]
    }

    /// The price of a request of this size: what it is worth to those who ask for it.
    pub fn price(&self, size: MilliGpu) -> i64 {
        let cell = cells_up(size);
        self.price[cell].unwrap_or(self.worth[cell])
    }
}

fn cells_up(size: MilliGpu) -> usize {
    (size.0.div_ceil(CELL) as usize).clamp(1, CELLS)
}

/// The best filling of every number of cells by sizes with prices: its value, and the last piece in it.
fn fill(sizes: &[usize], prices: &[i128]) -> (Vec<i128>, Vec<Option<usize>>) {
    let mut worth = vec![0_i128; CELLS + 1];
    let mut last = vec![None; CELLS + 1];
    for cells in 1..=CELLS {
        worth[cells] = worth[cells - 1];
        for (at, size) in sizes.iter().enumerate() {
            if *size <= cells && worth[cells - size] + prices[at] > worth[cells] {
                worth[cells] = worth[cells - size] + prices[at];
                last[cells] = Some(at);
            }
        }
    }
    (worth, last)
}

/// Revised simplex over fillings of a card.
struct Solver<'a> {
    sizes: &'a [usize],
    /// Inverse of the basis, row by row.
    inverse: Vec<Vec<i128>>,
    /// How much of each basic filling is used.
    used: Vec<i128>,
    /// Whether a basic column is a filling (cost 1) or a surplus (cost 0).
    filling: Vec<bool>,
}

impl<'a> Solver<'a> {
    /// Starts from cards filled with one size each.
    fn new(sizes: &'a [usize], demand: &[i128]) -> Self {
        let n = sizes.len();
        let mut inverse = vec![vec![0; n]; n];
        let mut used = Vec::with_capacity(n);
        for (at, size) in sizes.iter().enumerate() {
            let pieces = (CELLS / size) as i128;
            inverse[at][at] = UNIT / pieces;
            used.push(demand[at] / pieces);
        }
        Self { sizes, inverse, used, filling: vec![true; n] }
    }

    /// Prices of the sizes.
    fn run(mut self) -> Vec<i128> {
        for _ in 0..MAX_STEPS {
            let prices = self.prices();
            let Some((column, filling)) = self.entering(&prices) else { return prices };
            if !self.pivot(&column, filling) {
                return prices.into_iter().map(|p| p.max(0)).collect();
            }
        }
        self.prices().into_iter().map(|p| p.max(0)).collect()
    }

    fn prices(&self) -> Vec<i128> {
        let costly = || self.inverse.iter().zip(&self.filling).filter(|(_, filling)| **filling);
        (0..self.sizes.len()).map(|at| costly().map(|(row, _)| row[at]).sum()).collect()
    }

    /// A column that pays: the surplus of a size with a negative price, else the filling worth more than a card.
    fn entering(&self, prices: &[i128]) -> Option<(Vec<i128>, bool)> {
        let mut column = vec![0; self.sizes.len()];
        if let Some(at) = prices.iter().position(|p| *p < -NEGLIGIBLE) {
            column[at] = -1;
            return Some((column, false));
        }
        let (worth, last) = fill(self.sizes, prices);
        if worth[CELLS] <= UNIT + NEGLIGIBLE {
            return None;
        }
        let mut cells = CELLS;
        while cells > 0 {
            match last[cells] {
                Some(at) if worth[cells] > worth[cells - 1] => {
                    column[at] += 1;
                    cells -= self.sizes[at];
                }
                _ => cells -= 1,
            }
        }
        Some((column, true))
    }

    /// Brings the column in for the basic one that runs out first, the lowest among equals.
    fn pivot(&mut self, column: &[i128], filling: bool) -> bool {
        let n = self.sizes.len();
        let direction: Vec<i128> =
            self.inverse.iter().map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum::<i128>()).collect();
        let mut leaving: Option<(i128, usize)> = None;
        for (at, (step, used)) in direction.iter().zip(&self.used).enumerate() {
            if *step > NEGLIGIBLE {
                let ratio = (*used).max(0) * UNIT / step;
                if leaving.is_none_or(|(least, _)| ratio < least) {
                    leaving = Some((ratio, at));
                }
            }
        }
        let Some((amount, out)) = leaving else { return false };
        let row: Vec<i128> = self.inverse[out].iter().map(|v| v * UNIT / direction[out]).collect();
        for at in (0..n).filter(|at| *at != out && direction[*at] != 0) {
            for (value, pivot) in self.inverse[at].iter_mut().zip(&row) {
                *value -= direction[at] * pivot / UNIT;
            }
            self.used[at] -= direction[at] * amount / UNIT;
        }
        self.inverse[out] = row;
        self.used[out] = amount;
        self.filling[out] = filling;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(demand: &[(u32, u128)]) -> DeviceValues {
        DeviceValues::solve(&demand.iter().map(|(size, n)| (MilliGpu(*size), *n)).collect::<Vec<_>>())
    }

    fn near(value: i64, expected: i64) -> bool {
        (value - expected).abs() <= 2
    }

    #[test]
    fn halves_are_worth_half_a_card() {
        let v = values(&[(500, 10), (1000, 10)]);
        assert!(near(v.price(MilliGpu(500)), ONE / 2) && near(v.price(MilliGpu(1000)), ONE));
        assert!(near(v.worth(MilliGpu(700)), ONE / 2), "what is left over is worth nothing");
        assert_eq!(v.worth(MilliGpu(490)), 0);
    }

    #[test]
    fn sizes_that_complete_each_other_share_the_card() {
        // Plenty of 350 to go with 650: the pair is worth a card.
        let v = values(&[(650, 10), (350, 10)]);
        assert!(near(v.price(MilliGpu(650)) + v.price(MilliGpu(350)), ONE));
        // Two 650s never fit one card, and nothing else asks for the rest: a 650 costs all of it.
        assert!(near(values(&[(650, 10)]).price(MilliGpu(650)), ONE));
    }

    #[test]
    fn small_beside_whole_is_cheap() {
        let v = values(&[(1000, 100), (100, 1)]);
        assert!(near(v.price(MilliGpu(100)), ONE / 10));
    }

    #[test]
    fn nothing_asked() {
        let v = values(&[]);
        assert_eq!((v.worth(MilliGpu(1000)), v.worth(MilliGpu(999)), v.price(MilliGpu(1000))), (ONE, 0, ONE));
    }

    proptest::proptest! {
        /// No filling is worth more than a card, and no worth falls as more is idle.
        #[test]
        fn prices_are_feasible(demand in proptest::collection::vec((1_u32..=1000, 1_u128..1000), 0..40)) {
            let v = values(&demand);
            let mut sizes: Vec<usize> = demand.iter().map(|(size, _)| cells_up(MilliGpu(*size))).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let prices: Vec<i128> =
                sizes.iter().map(|c| i128::from(v.price(MilliGpu(u32::try_from(*c).unwrap() * CELL)))).collect();
            let (worth, _) = fill(&sizes, &prices);
            proptest::prop_assert!(worth[CELLS] <= i128::from(ONE) + 100, "{}", worth[CELLS]);
            for cells in 1..=CELLS {
                proptest::prop_assert!(v.worth[cells] >= v.worth[cells - 1]);
            }
        }
    }
}
