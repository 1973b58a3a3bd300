//! Random numbers that are the same everywhere.

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, by multiplication: the bias is n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// An exponential variate of this mean, by von Neumann's comparison of uniform numbers (1951): no logarithm,
    /// so no machine differs. A falling run u1 > u2 > … that starts at u1 is of odd length with probability
    /// exp(-u1); an even one adds 1 and starts over.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole: u64 = 0;
        loop {
            let first = self.next();
            let (mut last, mut length) = (first, 1_u32);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            if length % 2 == 1 {
                let part = (u128::from(first) * u128::from(mean)) >> 64;
                return whole.saturating_mul(mean).saturating_add(part as u64);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_has_its_mean_and_quantiles() {
        let mut random = SplitMix(1);
        let mut draws: Vec<u64> = (0..200_000).map(|_| random.exponential(1_000_000)).collect();
        draws.sort_unstable();
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        for q in [0.1, 0.5, 0.9, 0.99] {
            let (found, expected) = (draws[(q * 200_000.0) as usize] as f64 / 1e6, -(1.0_f64 - q).ln());
            assert!((found / expected - 1.0).abs() < 0.03, "quantile {q}: {found} against {expected}");
        }
    }
}
