//! Factors with three decimals.

use std::str::FromStr;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A factor in thousandths, 0.001 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permille(pub u64);

impl Permille {
    /// As a number.
    pub fn factor(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl FromStr for Permille {
    type Err = String;

    /// `1.3` as 1300 thousandths.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("{text:?} is not a factor between 0.001 and 1000 with at most three decimals, such as 1.3");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || whole.len() > 4 || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
            return Err(expected());
        }
        let permille = format!("{whole}{fraction:0<3}").parse::<u64>().map_err(|_| expected())?;
        if (1..=1_000_000).contains(&permille) { Ok(Self(permille)) } else { Err(expected()) }
    }
}

impl<'de> Deserialize<'de> for Permille {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Factor)
    }
}

/// Takes `0.95`, `2` and `"0.95"`.
struct Factor;

impl Visitor<'_> for Factor {
    type Value = Permille;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a factor such as 0.95")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Permille, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Permille, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Permille, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Permille, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        for (text, expected) in [("1.3", Some(1300)), ("2", Some(2000)), ("0.001", Some(1)), ("1.25", Some(1250))] {
            assert_eq!(text.parse().ok(), expected.map(Permille), "{text}");
        }
        for text in ["", "0", "-1", "1.2345", "x", "1e3", "1001", "."] {
            assert!(text.parse::<Permille>().is_err(), "{text}");
        }
    }
}
