//! Which schedules are played.

use std::collections::BTreeSet;
use std::env;

/// How many.
const COUNT: &str = "SCHEDULES";
/// One alone.
const SEED: &str = "SCHEDULE_SEED";
/// Parts of that one, by their names, with blanks between them.
const PARTS: &str = "SCHEDULE_PARTS";

/// Which schedules are played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settings {
    /// Those of the first seeds.
    Many {
        /// How many.
        count: u64,
    },
    /// One.
    One {
        /// Its seed.
        seed: u64,
        /// With these parts alone.
        parts: Option<BTreeSet<String>>,
    },
}

impl Settings {
    /// What the environment says, or so many.
    ///
    /// # Errors
    ///
    /// What it says is not a number, or parts are named of no seed.
    pub fn from_environment(count: u64) -> Result<Self, String> {
        Self::said(count, |name| env::var(name).ok().filter(|text| !text.trim().is_empty()))
    }

    fn said(count: u64, said: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| {
            said(name)
                .map(|text| text.trim().parse::<u64>().map_err(|error| format!("{name}={text}: {error}")))
                .transpose()
        };
        let parts: Option<BTreeSet<String>> =
            said(PARTS).map(|text| text.split_whitespace().map(ToOwned::to_owned).collect());
        match number(SEED)? {
            Some(seed) => Ok(Self::One { seed, parts }),
            None if parts.is_some() => Err(format!("{PARTS} names parts of one schedule: say which by {SEED}")),
            None => Ok(Self::Many { count: number(COUNT)?.unwrap_or(count) }),
        }
    }
}

/// How a schedule is played again.
pub fn again(seed: u64, parts: &[String]) -> String {
    format!(
        "{SEED}={seed} {PARTS}=\"{}\" cargo test --all-features -p gpu-scheduler-testbed --test schedules -- --nocapture",
        parts.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_which() {
        let with = |set: &'static [(&str, &str)]| {
            Settings::said(10, |name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[]), Ok(Settings::Many { count: 10 }));
        assert_eq!(with(&[(COUNT, "7")]), Ok(Settings::Many { count: 7 }));
        assert_eq!(with(&[(SEED, "3"), (COUNT, "7")]), Ok(Settings::One { seed: 3, parts: None }));
        let parts = Some(["n0".to_owned(), "p1".to_owned()].into());
        assert_eq!(with(&[(SEED, "3"), (PARTS, "p1 n0")]), Ok(Settings::One { seed: 3, parts }));
        assert!(with(&[(PARTS, "p1")]).unwrap_err().contains("say which by SCHEDULE_SEED"));
        assert!(with(&[(COUNT, "many")]).unwrap_err().starts_with("SCHEDULES=many: "));
    }
}
