//! The leader's word to itself: until when it may write. Asked immediately before each write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Until when this replica may write. All clones are one.
#[derive(Debug, Clone)]
pub struct Fence {
    base: Instant,
    /// Milliseconds after `base`; 0: it may not.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// Closed.
    pub fn closed() -> Self {
        Self::closed_at(Instant::now())
    }

    /// Closed, made at `now`.
    pub fn closed_at(now: Instant) -> Self {
        Self { base: now, until: Arc::new(AtomicU64::new(0)) }
    }

    /// Open for ever: where no other replica can be.
    pub fn open() -> Self {
        Self { base: Instant::now(), until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Open until `until`: the time when the last renewal was *sent*, plus the renew deadline.
    pub fn extend(&self, until: Instant) {
        let millis = until.saturating_duration_since(self.base).as_millis();
        self.until.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Closed from now on.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Whether a write may go out now.
    pub fn is_open(&self) -> bool {
        self.is_open_at(Instant::now())
    }

    /// Whether a write may go out at `now`.
    pub fn is_open_at(&self, now: Instant) -> bool {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::is_planted(crate::planted::Bug::FenceIsIgnored) {
            return true;
        }
        let now = now.saturating_duration_since(self.base).as_millis();
        now < u128::from(self.until.load(Ordering::SeqCst))
    }

    /// How much longer, if at all.
    pub fn left(&self) -> Duration {
        self.left_at(Instant::now())
    }

    /// How much longer from `now` on, if at all.
    pub fn left_at(&self, now: Instant) -> Duration {
        let now = now.saturating_duration_since(self.base);
        Duration::from_millis(self.until.load(Ordering::SeqCst)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_closes_by_itself() {
        let fence = Fence::closed();
        assert!(!fence.is_open());
        fence.extend(Instant::now() + Duration::from_secs(10));
        assert!(fence.is_open());
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(fence.is_open());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!fence.is_open());
        fence.extend(Instant::now() + Duration::from_secs(10));
        fence.close();
        assert!(!fence.is_open());
        assert!(Fence::open().is_open());
    }
}
