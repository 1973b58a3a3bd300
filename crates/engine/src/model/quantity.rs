//! Kubernetes quantities, exactly.
//!
//! `resource.Quantity` of `k8s.io/apimachinery` in integers: a value is a whole number of nano-units;
//! what is finer rounds up, away from zero, as the original does.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const NANO: i128 = 1_000_000_000;
/// Largest value that Kubernetes keeps: 2^63 - 1 units.
const MAX: i128 = i64::MAX as i128 * NANO;

/// An exact amount of a resource in nano-units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Quantity(i128);

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("a quantity is empty; write a number such as 500m, 2 or 16Gi")]
    Empty,
    /// The number itself cannot be read.
    #[error("{0:?} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 16Gi")]
    Number(String),
    /// The number is fine, its suffix is not one of Kubernetes'.
    #[error(
        "{text:?} has the unknown suffix {suffix:?}; known are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as e3"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// The part that is not understood.
        suffix: String,
    },
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `n` whole units (cores, bytes, devices).
    pub const fn units(n: i64) -> Self {
        Self(n as i128 * NANO)
    }

    /// `n` thousandths of a unit.
    pub const fn millis(n: i64) -> Self {
        Self(n as i128 * (NANO / 1000))
    }

    /// In units, rounded up (apimachinery's `Value`).
    pub fn value(self) -> i64 {
        round_up(self.0, NANO)
    }

    /// In thousandths, rounded up (apimachinery's `MilliValue`).
    pub fn milli_value(self) -> i64 {
        round_up(self.0, NANO / 1000)
    }

    /// Whether nothing is asked.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the amount is below zero, which no request may be.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    // Away from zero, as apimachinery's ScaledValue does.
    let rounded = if nanos >= 0 { (nanos + unit - 1) / unit } else { (nanos - unit + 1) / unit };
    i64::try_from(rounded).unwrap_or(if rounded > 0 { i64::MAX } else { i64::MIN })
}

impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self((self.0 + other.0).clamp(-MAX, MAX))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::ZERO, Self::add)
    }
}

impl From<Quantity> for String {
    /// Exactly: read again it is the same amount.
    fn from(quantity: Quantity) -> Self {
        if quantity.0 % (NANO / 1000) == 0 { quantity.to_string() } else { format!("{}n", quantity.0) }
    }
}

impl TryFrom<String> for Quantity {
    type Error = QuantityError;
    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let number = || QuantityError::Number(text.to_owned());
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (decimal, suffix) = unsigned.split_at(digits);
        let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(number());
        }
        let scale = Scale::parse(suffix)
            .ok_or_else(|| QuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let nanos = scale.apply(whole, fraction);
        Ok(Self(if negative { -nanos } else { nanos }))
    }
}

/// What a suffix multiplies by.
#[derive(Debug, Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // An exponent beyond this range saturates or vanishes all the same.
                let magnitude = digits.parse::<i32>().unwrap_or(1000).min(1000);
                Self::Ten(if exponent.starts_with('-') { -magnitude } else { magnitude })
            }
        })
    }

    /// `whole.fraction` scaled, in nano-units, rounded up and capped at [`MAX`].
    fn apply(self, whole: &str, fraction: &str) -> i128 {
        let mut nanos: i128 = 0;
        let mut rounded = false;
        // Value of a digit at 10^position, position 0 being the last of `whole`.
        let last = whole.len() as i64 - 1;
        for (i, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
            let digit = i128::from(digit - b'0');
            if digit == 0 {
                continue;
            }
            match self.digit(digit, last - i as i64) {
                Digit::Huge => return MAX,
                Digit::Nanos { nanos: n, exact } => {
                    nanos = (nanos + n).min(MAX);
                    rounded |= !exact;
                }
            }
        }
        // What was cut off is below a nano-unit: no resource is counted that finely, so one more covers it.
        if rounded { (nanos + 1).min(MAX) } else { nanos }
    }

    fn digit(self, digit: i128, position: i64) -> Digit {
        let (shift, position) = match self {
            Self::Ten(exponent) => (0, position + i64::from(exponent) + 9),
            Self::Two(shift) => (shift, position + 9),
        };
        let scaled = digit << shift;
        match u32::try_from(position) {
            Ok(p) if p > 30 => Digit::Huge,
            Ok(p) => match scaled.checked_mul(10_i128.pow(p)) {
                Some(nanos) if nanos <= MAX => Digit::Nanos { nanos, exact: true },
                _ => Digit::Huge,
            },
            Err(_) if position < -30 => Digit::Nanos { nanos: 0, exact: false },
            Err(_) => {
                let divisor = 10_i128.pow(u32::try_from(-position).unwrap_or(30));
                Digit::Nanos { nanos: scaled / divisor, exact: scaled % divisor == 0 }
            }
        }
    }
}

enum Digit {
    Huge,
    Nanos { nanos: i128, exact: bool },
}

impl fmt::Display for Quantity {
    /// In units where it is whole, else in thousandths (rounded up), as Kubernetes prints decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % NANO == 0 { write!(f, "{}", self.0 / NANO) } else { write!(f, "{}m", self.milli_value()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubernetes_writes() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("500m", 500),
            ("0.5", 500),
            (".5", 500),
            ("5.", 5000),
            ("1500u", 2), // rounds up
            ("1n", 1),
            ("2k", 2_000_000),
            ("1e3", 1_000_000),
            ("1E-3", 1),
            ("+2", 2000),
            ("-2", -2000),
            ("-500u", -1),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("0.0000000001", 1), // below nano: rounds up to one nano
        ] {
            assert_eq!(text.parse::<Quantity>().map(Quantity::milli_value), Ok(milli), "{text}");
        }
    }

    #[test]
    fn large_values_saturate() {
        for text in ["9223372036854775807", "1e400", "100E", "16Ei", "99999999999999999999999999"] {
            assert_eq!(text.parse::<Quantity>().map(Quantity::value), Ok(i64::MAX), "{text}");
        }
        assert_eq!("1e-400".parse::<Quantity>().map(Quantity::value), Ok(1));
    }

    #[test]
    fn says_what_is_wrong() {
        for text in ["", "x", "1.2.3", ".", "-", "1 Gi", "1gi", "0x10", "1e", "1e+", "ä"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}", numeric in "[-+]?[0-9.]{0,30}(e[+-]?[0-9]{0,6}|[a-zA-Z]{0,2})") {
            let _ = text.parse::<Quantity>();
            let _ = numeric.parse::<Quantity>();
        }

        #[test]
        fn sums_are_exact(values in proptest::collection::vec(0_i64..1_000_000, 0..50)) {
            let sum: Quantity = values.iter().map(|v| Quantity::millis(*v)).sum();
            proptest::prop_assert_eq!(sum.milli_value(), values.iter().sum::<i64>());
        }
    }
}
