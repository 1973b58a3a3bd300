//! Time means of quantities that change in steps.

/// Sums of quantity times time in bins of equal width; what comes after the last bin is not counted.
#[derive(Debug, Clone)]
pub(crate) struct TimeBins<const N: usize> {
    width: u64,
    now: u64,
    sums: Vec<[u128; N]>,
}

impl<const N: usize> TimeBins<N> {
    /// `bins` bins of `width` from time 0 on.
    pub fn new(width: u64, bins: usize) -> Self {
        Self { width: width.max(1), now: 0, sums: vec![[0; N]; bins] }
    }

    /// Time has passed until `to`, and the quantities were these since the last call.
    pub fn advance(&mut self, to: u64, values: [u64; N]) {
        while self.now < to {
            let bin = self.now / self.width;
            let until = to.min((bin + 1).saturating_mul(self.width));
            let Some(sums) = usize::try_from(bin).ok().and_then(|bin| self.sums.get_mut(bin)) else { break };
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += u128::from(value) * u128::from(until - self.now);
            }
            self.now = until;
        }
        self.now = self.now.max(to);
    }

    /// Which bin a time is in.
    pub fn bin(&self, time: u64) -> usize {
        usize::try_from(time / self.width).unwrap_or(usize::MAX)
    }

    /// The end of a bin.
    pub fn end(&self, bin: usize) -> u64 {
        (bin as u64 + 1).saturating_mul(self.width)
    }

    /// The time means over the bins `from..to`.
    pub fn means(&self, from: usize, to: usize) -> [f64; N] {
        let bins = self.sums.get(from..to.min(self.sums.len())).unwrap_or_default();
        let span = (self.width as f64 * bins.len() as f64).max(1.0);
        std::array::from_fn(|n| bins.iter().map(|sums| sums[n]).sum::<u128>() as f64 / span)
    }

    /// How many bins there are.
    pub fn len(&self) -> usize {
        self.sums.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_by_time() {
        let mut bins: TimeBins<2> = TimeBins::new(10, 3);
        bins.advance(5, [0, 1]);
        bins.advance(25, [100, 1]);
        bins.advance(100, [7, 1]);
        assert_eq!(bins.means(0, 1), [50.0, 1.0]);
        assert_eq!(bins.means(1, 3), [(1000.0 + 500.0 + 35.0) / 20.0, 1.0]);
        assert_eq!(bins.means(3, 3), [0.0, 0.0]);
        assert_eq!((bins.bin(25), bins.end(2), bins.len()), (2, 30, 3));
    }
}
