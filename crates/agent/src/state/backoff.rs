//! When to try again what failed.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Pauses after failures: 1 s, then twice as long each time up to a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Duration,
}

impl Backoff {
    /// The moment before which nothing is tried.
    pub fn until(self) -> Duration {
        self.until
    }

    /// It failed again.
    pub fn failed(&mut self, now: Duration) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.until = now + pause;
    }
}
