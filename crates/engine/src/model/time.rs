//! Time as the engine knows it: a number that the caller passes in.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch, or since the start of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;
    fn add(self, by: Millis) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}
