//! Lists of seeds.

use std::str::FromStr;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// Most seeds of one experiment.
const MOST: usize = 10_000;

/// Seeds in order, written `42`, `42,43` or `42..51` (both ends included).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |part: &str| format!("{part:?} is not a seed; write numbers and ranges, such as 42, 42,43 or 42..51");
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let number = |s: &str| s.trim().parse::<u64>().map_err(|_| wrong(part));
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(format!("the range {part:?} is empty; write the smaller seed first"));
            }
            if last - first >= MOST as u64 || seeds.len() > MOST {
                return Err(format!("{text:?} names more than {MOST} seeds"));
            }
            seeds.extend(first..=last);
        }
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!("seed {} is named twice", twice[0])),
            None => Ok(Self(seeds)),
        }
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(List)
    }
}

/// Takes `42`, `"42..51"` and `[42, 43]`.
struct List;

impl<'de> Visitor<'de> for List {
    type Value = Seeds;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("seeds such as 42, 42..51 or [42, 43]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seeds, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, seed: u64) -> Result<Seeds, E> {
        Ok(Seeds(vec![seed]))
    }

    fn visit_i64<E: de::Error>(self, seed: i64) -> Result<Seeds, E> {
        self.visit_str(&seed.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seeds, A::Error> {
        let mut texts: Vec<String> = Vec::new();
        while let Some(seed) = list.next_element::<u64>()? {
            texts.push(seed.to_string());
        }
        self.visit_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds() {
        for (text, expected) in [("42", vec![42]), ("42,7", vec![42, 7]), ("1..3,9", vec![1, 2, 3, 9])] {
            assert_eq!(text.parse(), Ok(Seeds(expected)), "{text}");
        }
        for text in ["", "x", "-1", "3..1", "1,1", "1..2,2", "1..", "0..99999", "1.5"] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
