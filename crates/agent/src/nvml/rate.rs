//! Counters as rates.

use std::time::Duration;

/// A counter at the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    last: Option<(Duration, u64)>,
}

impl Rate {
    /// Thousands a second since the last look, as DCGM publishes NVLink's KiB; 0 at the first look, and where the counter
    /// began anew.
    pub fn thousands_per_second(&mut self, now: Duration, counter: u64) -> u64 {
        let Some((then, before)) = self.last.replace((now, counter)) else { return 0 };
        let elapsed = now.saturating_sub(then).as_millis();
        let moved = u128::from(counter.saturating_sub(before));
        // Counts a millisecond are thousands a second.
        moved.checked_div(elapsed).map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let mut rate = Rate::default();
        for (second, counter, expected) in [
            (10, 1_000_000, 0),     // the first look
            (20, 1_000_000, 0),     // nothing moved
            (30, 21_000_000, 2000), // 2,000,000 a second
            (30, 22_000_000, 0),    // no time passed
            (40, 5, 0),             // the driver was loaded again
            (50, 10_005, 1),
        ] {
            let now = Duration::from_secs(second);
            assert_eq!(rate.thousands_per_second(now, counter), expected, "at {second} s");
        }
    }
}
