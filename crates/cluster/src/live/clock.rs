//! The time that the engine is told: wall-clock time that never goes back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpu_scheduler_engine::model::Timestamp;

/// How far the wall clock may be ahead before it is believed: it was set right, or the machine slept.
const JUMP: Duration = Duration::from_secs(30);

/// A clock that starts with the wall clock and then counts by itself, so that a wall clock that is set back, or
/// jumps to and fro, moves no timeout. Set far ahead, it is followed.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    wall: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now(), wall: wall_clock() }
    }
}

impl Clock {
    /// Now.
    pub fn now(&mut self) -> Timestamp {
        self.at(Instant::now(), wall_clock())
    }

    fn at(&mut self, now: Instant, wall: Duration) -> Timestamp {
        let counted = self.wall + now.saturating_duration_since(self.started);
        if wall > counted + JUMP {
            self.wall = wall;
            self.started = now;
            return stamp(wall);
        }
        stamp(counted)
    }
}

fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn stamp(since_epoch: Duration) -> Timestamp {
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_back_and_ahead_only_by_a_jump() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut clock = Clock { started: start, wall: seconds(1000) };
        for (counted, wall, expected) in
            [(1, 1001, 1001), (2, 500, 1002), (3, 1020, 1003), (4, 1034, 1004), (5, 2000, 2000), (6, 1006, 2001)]
        {
            assert_eq!(clock.at(start + seconds(counted), seconds(wall)), Timestamp(expected * 1000), "at {counted} s");
        }
    }
}
