//! Independent pieces of work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work` for 0 to `count - 1`, in order, on at most `threads` threads.
pub fn in_parallel<R: Send>(count: usize, threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, work(at)));
        }
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count.max(1))).map(|_| scope.spawn(take)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for threads in [0, 1, 3, 100] {
            assert_eq!(in_parallel(50, threads, |n| n * n), (0..50).map(|n| n * n).collect::<Vec<_>>());
        }
        assert!(in_parallel(0, 4, |n| n).is_empty());
    }
}
