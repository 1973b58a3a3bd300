//! Who may write first: binds before what is only told of them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Binds on their way from which on it is a burst. Up to there the API server has time for both.
const BURST: usize = 8;
/// Binds of a burst after which one thing may be told: a percent of what the API server does, so that waiting pods hear
/// something even while a burst goes on.
const BINDS_A_TELLING: u32 = 128;

/// While many binds are on their way, tellers wait; but for one telling every [`BINDS_A_TELLING`] binds.
#[derive(Debug, Clone, Default)]
pub(super) struct RightOfWay {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    traffic: Mutex<Traffic>,
    free: Notify,
}

#[derive(Debug, Default)]
struct Traffic {
    binds: usize,
    /// Binds that went out since something was told.
    passed: u32,
}

/// A bind on its way, until it is dropped.
#[derive(Debug)]
pub(super) struct Passing(RightOfWay);

impl RightOfWay {
    fn traffic(&self) -> std::sync::MutexGuard<'_, Traffic> {
        // Two counters, each changed at once: a panic elsewhere leaves nothing half done.
        self.shared.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bind goes out.
    pub fn bind(&self) -> Passing {
        let mut traffic = self.traffic();
        traffic.binds += 1;
        traffic.passed = traffic.passed.saturating_add(1);
        let due = traffic.passed >= BINDS_A_TELLING;
        drop(traffic);
        if due {
            self.shared.free.notify_one();
        }
        Passing(self.clone())
    }

    /// Waits until something may be told.
    pub async fn give(&self) {
        loop {
            let news = self.shared.free.notified();
            if self.may_tell() {
                return;
            }
            news.await;
        }
    }

    fn may_tell(&self) -> bool {
        let mut traffic = self.traffic();
        let may = traffic.binds < BURST || traffic.passed >= BINDS_A_TELLING;
        if may {
            traffic.passed = 0;
        }
        may
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let mut traffic = self.0.traffic();
        traffic.binds -= 1;
        let free = traffic.binds < BURST;
        drop(traffic);
        if free {
            self.0.shared.free.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn tellers_wait_while_many_binds_are_out_but_for_one_telling_in_a_number_of_binds() {
        let way = RightOfWay::default();
        let mut out: Vec<Passing> = (1..BURST).map(|_| way.bind()).collect();
        assert_eq!(way.give().now_or_never(), Some(()), "no burst");
        out.push(way.bind());
        let mut waiting = Box::pin(way.give());
        assert_eq!((&mut waiting).now_or_never(), None, "a burst");
        // Others go out as these come back.
        let told = (0..BINDS_A_TELLING * 3)
            .filter(|_| {
                out.push(way.bind());
                drop(out.remove(0));
                let told = (&mut waiting).now_or_never().is_some();
                if told {
                    waiting = Box::pin(way.give());
                }
                told
            })
            .count();
        assert_eq!(told, 3);
        assert_eq!((&mut waiting).now_or_never(), None);
        out.pop();
        assert_eq!((&mut waiting).now_or_never(), Some(()), "the burst is over");
        assert_eq!(way.give().now_or_never(), Some(()));
    }
}
