//! Jobs of whole cards over time, as in Microsoft's Philly trace (USENIX ATC 2019): a CSV with the columns
//! timestamp, duration and num_gpus.

mod jobs;
mod queueing;

use std::str::FromStr;

pub use jobs::{Job, read_jobs};
pub use queueing::Queueing;

/// A cluster of equal nodes, written `64x8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterShape {
    /// How many nodes.
    pub nodes: u32,
    /// Cards of each.
    pub cards: u32,
}

impl ClusterShape {
    /// All cards.
    pub fn total(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.cards)
    }
}

impl FromStr for ClusterShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text:?} is not a cluster; write NODESxCARDS, such as 64x8, with at most 100000 nodes of 1024 cards"
            )
        };
        let (nodes, cards) = text.split_once('x').ok_or_else(expected)?;
        let number = |s: &str, most: u32| s.parse::<u32>().ok().filter(|n| (1..=most).contains(n));
        match (number(nodes, 100_000), number(cards, 1024)) {
            (Some(nodes), Some(cards)) => Ok(Self { nodes, cards }),
            _ => Err(expected()),
        }
    }
}

/// Sizes by which jobs are reported.
pub(crate) const SIZES: [&str; 4] = ["1", "2-4", "5-8", ">8"];

/// The size of a job of so many cards.
pub(crate) fn size_class(cards: u32) -> &'static str {
    match cards {
        0..=1 => SIZES[0],
        2..=4 => SIZES[1],
        5..=8 => SIZES[2],
        _ => SIZES[3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters() {
        assert_eq!("64x8".parse(), Ok(ClusterShape { nodes: 64, cards: 8 }));
        for text in ["", "64", "0x8", "64x0", "64x", "x8", "64x8x2", "100001x8", "-1x8", "6 x8"] {
            assert!(text.parse::<ClusterShape>().is_err_and(|e| e.contains("64x8")), "{text}");
        }
    }

    #[test]
    fn sizes() {
        let found: Vec<&str> = [1, 2, 4, 5, 8, 9, 128].map(size_class).into();
        assert_eq!(found, ["1", "2-4", "2-4", "5-8", "5-8", ">8", ">8"]);
    }
}
