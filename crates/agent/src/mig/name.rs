//! Names of profiles, as files have them.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::inventory::MigProfile;

/// A profile's name, taken apart: `1g.10gb+me` is a whole GPU instance, `1c.3g.20gb` a part of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileName {
    /// The GPU instance's profile.
    pub instance: MigProfile,
    /// Slices of the compute instance; `None`: all.
    pub compute: Option<u32>,
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slices) = self.compute {
            write!(f, "{slices}c.")?;
        }
        f.write_str(&self.instance.0)
    }
}

/// A number without a sign and its unit: `3g`.
fn amount(text: &str, unit: &str) -> Option<u32> {
    let digits = text.strip_suffix(unit)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?.filter(|amount| *amount > 0)
}

fn parse(text: &str) -> Option<ProfileName> {
    let (first, rest) = text.split_once('.')?;
    let compute = amount(first, "c");
    let instance = if compute.is_some() { rest } else { text };
    let (slices, memory) = instance.split_once('.')?;
    let slices = amount(slices, "g")?;
    let end = memory.find(['+', '-']).unwrap_or(memory.len());
    let (memory, attributes) = memory.split_at(end);
    amount(memory, "gb")?;
    let word = |text: &str| text.starts_with(|first: char| first.is_ascii_alphabetic());
    let plain = attributes.get(1..).is_none_or(word) && attributes.bytes().all(|byte| byte.is_ascii_graphic());
    (plain && compute.is_none_or(|compute| compute <= slices))
        .then(|| ProfileName { instance: MigProfile(instance.into()), compute: compute.filter(|part| *part < slices) })
}

impl FromStr for ProfileName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
            .ok_or_else(|| format!("{text:?} is no profile; write one such as 1g.10gb, 1g.10gb+me or 1c.3g.20gb"))
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [
            ("1g.5gb", Some(("1g.5gb", None))),
            ("1g.10gb+me", Some(("1g.10gb+me", None))),
            ("1g.24gb+me.all", Some(("1g.24gb+me.all", None))),
            ("1g.24gb-me", Some(("1g.24gb-me", None))),
            ("1c.3g.20gb", Some(("3g.20gb", Some(1)))),
            ("3c.3g.20gb", Some(("3g.20gb", None))),
            ("4c.3g.20gb", None),
            ("1g.10gb.me", None),
            ("1g.10gb+", None),
            ("1g", None),
            ("g.5gb", None),
            ("0g.5gb", None),
            ("+1g.5gb", None),
            ("1g.5", None),
            ("", None),
        ] {
            let read = text.parse::<ProfileName>().ok();
            let parts = read.as_ref().map(|name| (&*name.instance.0, name.compute));
            assert_eq!(parts, expected, "{text}");
        }
    }
}
