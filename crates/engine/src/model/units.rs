//! Units. Every number that means something has its own type.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

use serde::{Deserialize, Serialize};

/// Memory of a GPU in MiB, as `nvidia-smi` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Mib(pub u64);

impl Mib {
    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or the largest value.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0)
    }
}

/// Compute of one GPU in percent. A sum over holders may exceed 100 where facts say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Percent(pub u32);

impl Percent {
    /// The whole card.
    pub const ALL: Self = Self(100);
    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or the largest value.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// Thousandths of one GPU: the size of a share, or what is idle of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct MilliGpu(pub u32);

impl MilliGpu {
    /// A whole card.
    pub const CARD: Self = Self(1000);
    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for MilliGpu {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for MilliGpu {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self(0), Self::add)
    }
}

/// The size of a share of `memory` and `compute` on a card of `total` memory:
/// `max(ceil(1000 * memory / total), 10 * compute)`, at most a card.
///
/// ```
/// use gpu_scheduler_engine::model::{Mib, MilliGpu, Percent, share_size};
/// assert_eq!(share_size(Mib(8192), Percent(0), Mib(81920)), MilliGpu(100));
/// assert_eq!(share_size(Mib(8192), Percent(30), Mib(81920)), MilliGpu(300));
/// ```
pub fn share_size(memory: Mib, compute: Percent, total: Mib) -> MilliGpu {
    let by_memory = match total.0 {
        0 => 1000,
        // Rounded up: the part that is not asked for is rounded down.
        total => 1000 - mul_div(total.saturating_sub(memory.0), 1000, total).min(1000) as u32,
    };
    MilliGpu(by_memory.max(compute.0.saturating_mul(10).min(1000)))
}

/// `a * b / c`, rounded down and without overflow: the wide division is only for numbers that need it.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let c = c.max(1);
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

/// What a placement costs, in thousandths of a milli-GPU. The lowest cost wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cost(pub i64);

impl Cost {
    /// `n` milli-GPU.
    pub const fn milli(n: i64) -> Self {
        Self(n.saturating_mul(1000))
    }
    /// `self` taken `n` times.
    pub const fn times(self, n: i64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Cost {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
