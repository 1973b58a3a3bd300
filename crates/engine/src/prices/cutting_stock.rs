//! The dual of cutting stock: prices for the sizes that are asked for, so that no filling of a card is worth
//! more than one card, and the demand as a whole is worth as much as possible.
//!
//! Solved by column generation (Gilmore and Gomory, 1961) in fixed-point arithmetic with an order of its own for
//! ties, so that every machine finds the same of several optima. What fits a card is the caller's.

/// One, within the solver.
pub(super) const UNIT: i128 = 1_000_000_000_000;
/// What counts as nothing within the solver.
const NEGLIGIBLE: i128 = UNIT / 10_000_000;
/// Steps of the solver; it needs a few per size.
const MAX_STEPS: usize = 1000;

/// What fits a card, by the index of a size.
pub(super) trait Fillings {
    /// How many pieces of one size a card takes: at least one.
    fn alone(&self, size: usize) -> i128;
    /// The filling that is worth most at these prices, in pieces of each size, if it is worth more than `limit`.
    fn worth_more(&self, prices: &[i128], limit: i128) -> Option<Vec<i128>>;
}

/// Prices of the sizes, in [`UNIT`]s of a card. `demand` is each size's part of all pieces, in [`UNIT`]s.
pub(super) fn prices(fillings: &impl Fillings, demand: &[i128]) -> Vec<i128> {
    Solver::new(fillings, demand).run()
}

/// Revised simplex over fillings of a card.
struct Solver<'a, F> {
    fillings: &'a F,
    /// Inverse of the basis, row by row.
    inverse: Vec<Vec<i128>>,
    /// How much of each basic filling is used.
    used: Vec<i128>,
    /// Whether a basic column is a filling (cost 1) or a surplus (cost 0).
    filling: Vec<bool>,
}

impl<'a, F: Fillings> Solver<'a, F> {
    /// Starts from cards filled with one size each.
    fn new(fillings: &'a F, demand: &[i128]) -> Self {
        let n = demand.len();
        let mut inverse = vec![vec![0; n]; n];
        let mut used = Vec::with_capacity(n);
        for (at, demand) in demand.iter().enumerate() {
            let pieces = fillings.alone(at);
            inverse[at][at] = UNIT / pieces;
            used.push(demand / pieces);
        }
        Self { fillings, inverse, used, filling: vec![true; n] }
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
        (0..self.used.len()).map(|at| costly().map(|(row, _)| row[at]).sum()).collect()
    }

    /// A column that pays: the surplus of a size with a negative price, else the filling worth more than a card.
    fn entering(&self, prices: &[i128]) -> Option<(Vec<i128>, bool)> {
        if let Some(at) = prices.iter().position(|p| *p < -NEGLIGIBLE) {
            let mut column = vec![0; prices.len()];
            column[at] = -1;
            return Some((column, false));
        }
        self.fillings.worth_more(prices, UNIT + NEGLIGIBLE).map(|pieces| (pieces, true))
    }

    /// Brings the column in for the basic one that runs out first, the lowest among equals.
    fn pivot(&mut self, column: &[i128], filling: bool) -> bool {
        let n = self.used.len();
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
