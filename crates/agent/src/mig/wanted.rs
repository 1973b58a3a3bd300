//! What is wanted of a card, and what that means on this one.

use std::collections::BTreeMap;
use std::fmt;

use super::fit::{Piece, fit};
use super::name::ProfileName;
use crate::inventory::MigProfile;
use crate::nvml::{Division, InstanceProfile};

/// What is wanted of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// That it is not in MIG's mode.
    Disabled,
    /// That it is, with so many MIG devices of these profiles and no others.
    Devices(BTreeMap<ProfileName, u32>),
    /// As many as fit of one profile, named as in labels: `1g.10gb.me`.
    Every(String),
    /// Some of each size: two of one slice and one of two, and on a card of seven slices one of three.
    Balanced,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("no MIG"),
            Self::Devices(counts) if counts.is_empty() => f.write_str("MIG without devices"),
            Self::Devices(counts) => {
                for (at, (profile, count)) in counts.iter().enumerate() {
                    write!(f, "{}{count}\u{d7}{profile}", if at == 0 { "" } else { " + " })?;
                }
                Ok(())
            }
            Self::Every(profile) => write!(f, "as many {profile} as fit"),
            Self::Balanced => f.write_str("a balanced layout"),
        }
    }
}

/// Why a card cannot be as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The driver does not tell what the card can be cut into before it is in the mode.
    #[error("the driver does not tell the card's profiles while MIG is off")]
    Untold,
    /// It has no such profile.
    #[error("the card has no profile {profile}; it has {}", .known.join(", "))]
    NoSuchProfile {
        /// What was asked for.
        profile: String,
        /// What it has.
        known: Vec<String>,
    },
    /// There is no balanced layout for cards of so many slices.
    #[error("there is no balanced layout for a card of {slices} slices; write one of its own into the file")]
    NoBalance {
        /// Slices of the largest profile.
        slices: u32,
    },
    /// The profile is there fewer times on the empty card.
    #[error("{count} of {profile} are wanted, and the card takes {most} at most")]
    TooMany {
        /// The profile.
        profile: String,
        /// What is wanted.
        count: u32,
        /// What there can be.
        most: u32,
    },
    /// No order and no places make room for all of it.
    #[error("{wanted} does not fit on the card, in whatever order it is placed")]
    NoRoom {
        /// What is wanted.
        wanted: String,
    },
}

impl Unfit {
    /// The profile is not among the card's.
    pub(super) fn no_profile(division: &Division, profile: impl Into<String>) -> Self {
        let known = division.profiles.iter().map(|known| known.name.0.to_string()).collect();
        Self::NoSuchProfile { profile: profile.into(), known }
    }
}

/// How many instances of the profile the empty card takes. NVML's own count is not asked: on an A30 it is wrong. Media
/// extensions are there once on a card.
pub fn most(profile: &InstanceProfile) -> u32 {
    if profile.name.0.contains("+me") {
        return 1;
    }
    let pieces = vec![Piece { kind: 0, placements: &profile.placements }; profile.placements.len()];
    let there = Default::default();
    let fits = (1..=pieces.len()).take_while(|count| fit(&pieces[..*count], &there).is_some()).last();
    fits.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

impl Wanted {
    /// How many devices of which profiles that is on this card; `None` where it is not to be in the mode.
    ///
    /// # Errors
    /// [`Unfit`] if the card has no such thing.
    pub fn counts(&self, division: &Division) -> Result<Option<BTreeMap<ProfileName, u32>>, Unfit> {
        if matches!(self, Self::Every(_) | Self::Balanced) && division.profiles.is_empty() {
            return Err(Unfit::Untold);
        }
        let whole = |profile: &InstanceProfile| ProfileName { instance: profile.name.clone(), compute: None };
        match self {
            Self::Disabled => Ok(None),
            Self::Devices(counts) => Ok(Some(counts.clone())),
            Self::Every(name) => {
                let known = division.profiles.iter().find(|profile| profile.name.as_resource() == *name);
                let profile = known.ok_or_else(|| Unfit::no_profile(division, name.clone()))?;
                Ok(Some(BTreeMap::from([(whole(profile), most(profile))])))
            }
            Self::Balanced => {
                let slices = division.profiles.iter().map(|profile| profile.slices).max().unwrap_or(0);
                let sizes: &[(u32, u32)] = match slices {
                    7 => &[(1, 2), (2, 1), (3, 1)],
                    4 => &[(1, 2), (2, 1)],
                    _ => return Err(Unfit::NoBalance { slices }),
                };
                let of = |(size, count): &(u32, u32)| {
                    let found = base(division, *size).ok_or(Unfit::NoBalance { slices })?;
                    Ok((whole(found), *count))
                };
                sizes.iter().map(of).collect::<Result<_, _>>().map(Some)
            }
        }
    }
}

/// The plain profile of so many slices: without attributes, and of two the one that takes less of the card.
fn base(division: &Division, slices: u32) -> Option<&InstanceProfile> {
    let plain = |profile: &&InstanceProfile| profile.slices == slices && !is_special(&profile.name);
    let size = |profile: &&InstanceProfile| profile.placements.first().map_or(u32::MAX, |place| place.size);
    division.profiles.iter().filter(plain).min_by_key(size)
}

fn is_special(name: &MigProfile) -> bool {
    name.0.contains(['+', '-'])
}
