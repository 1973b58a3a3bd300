//! Draws from a seed.

use gpu_scheduler_sim::random::SplitMix;

/// A stream of draws: the same seed, the same draws, on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Draw(SplitMix);

impl Draw {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix(seed))
    }

    /// A stream of its own for the `number`th thing of a seed, whatever was drawn for the others.
    pub(crate) fn nth(seed: u64, number: usize) -> Self {
        let mut stream = SplitMix(seed);
        let high = stream.below(usize::MAX) as u64;
        Self(SplitMix(high.wrapping_add(number as u64)))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in so many of a hundred draws.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// So many distinct ones of them, or all, in the order of the list.
    pub(crate) fn some<T: Clone>(&mut self, of: &[T], count: usize) -> Vec<T> {
        let mut left = count.min(of.len());
        let mut taken = Vec::with_capacity(left);
        for (i, item) in of.iter().enumerate() {
            if self.below(of.len() - i) < left {
                taken.push(item.clone());
                left -= 1;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything() {
        let draws = |mut draw: Draw| (0..20).map(|_| draw.below(1000)).collect::<Vec<_>>();
        assert_eq!(draws(Draw::new(7)), draws(Draw::new(7)));
        assert_ne!(draws(Draw::new(7)), draws(Draw::new(8)));
        assert_ne!(draws(Draw::nth(7, 0)), draws(Draw::nth(7, 1)));
        assert_ne!(draws(Draw::nth(7, 0)), draws(Draw::nth(8, 0)));
    }

    #[test]
    fn some_are_distinct_and_no_more_than_there_are() {
        let mut draw = Draw::new(1);
        for count in 0..6 {
            let mut some = draw.some(&[1, 2, 3, 4], count);
            assert_eq!(some.len(), count.min(4));
            some.dedup();
            assert_eq!(some.len(), count.min(4));
        }
    }
}
