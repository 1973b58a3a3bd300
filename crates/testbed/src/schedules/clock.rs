//! Virtual time.

use std::time::Duration;

use gpu_scheduler_engine::model::Timestamp;
use k8s_openapi::jiff;
use tokio::time;

use super::plan::Moment;

/// The moment at which all schedules begin: 2026-01-01T00:00:00Z.
const BEGINNING: u64 = 1_767_225_600_000;

/// A moment of virtual time, in milliseconds after the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Moment);

impl Instant {
    /// So many milliseconds later.
    pub fn after(self, millis: Moment) -> Self {
        Self(self.0 + millis)
    }

    /// As the engine is told.
    pub fn stamp(self) -> Timestamp {
        Timestamp(BEGINNING + self.0)
    }

    /// The moment of a time that the engine says; not before now.
    pub fn of(self, stamp: Timestamp) -> Self {
        Self(stamp.0.saturating_sub(BEGINNING).max(self.0))
    }
}

/// Virtual time for what counts by the runtime's clock. Where that began makes no difference: only differences count.
#[derive(Debug, Clone, Copy)]
pub struct Base(time::Instant);

impl Base {
    /// One.
    pub fn new() -> Self {
        Self(time::Instant::now())
    }

    /// A moment by it.
    pub fn at(self, now: Instant) -> time::Instant {
        self.0 + Duration::from_millis(now.0)
    }
}

/// As objects have it.
pub fn rfc3339(now: Instant) -> String {
    let millis = i64::try_from(now.stamp().0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map(|t| t.to_string()).unwrap_or_default()
}

/// Milliseconds of a duration.
pub fn millis(duration: Duration) -> Moment {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
