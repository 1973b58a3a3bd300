//! What the idle part of a card is worth, by the requests that could still be filled into it.
//!
//! The prices are those of [`cutting_stock`] with a size as one number, the larger of memory and compute.

use crate::model::MilliGpu;
use crate::prices::ONE;
use crate::prices::cutting_stock::{self, Fillings, UNIT};

/// Cells of a card: sizes are counted in hundredths.
pub(super) const CELLS: usize = 100;
/// Thousandths of a card in a cell.
const CELL: u32 = 10;
/// Sizes that get a price of their own; rarer ones are worth what they displace.
pub(super) const MAX_SIZES: usize = 32;

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
        let prices = cutting_stock::prices(&Sizes(&sizes), &demand);
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

pub(super) fn cells_up(size: MilliGpu) -> usize {
    (size.0.div_ceil(CELL) as usize).clamp(1, CELLS)
}

/// Fillings of a card by pieces that add up to at most a card.
struct Sizes<'a>(&'a [usize]);

impl Fillings for Sizes<'_> {
    fn alone(&self, size: usize) -> i128 {
        (CELLS / self.0[size]) as i128
    }
    fn worth_more(&self, prices: &[i128], limit: i128) -> Option<Vec<i128>> {
        let (worth, last) = fill(self.0, prices);
        if worth[CELLS] <= limit {
            return None;
        }
        let mut pieces = vec![0; self.0.len()];
        let mut cells = CELLS;
        while cells > 0 {
            match last[cells] {
                Some(at) if worth[cells] > worth[cells - 1] => {
                    pieces[at] += 1;
                    cells -= self.0[at];
                }
                _ => cells -= 1,
            }
        }
        Some(pieces)
    }
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
