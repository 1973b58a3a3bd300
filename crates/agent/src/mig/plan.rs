//! From what is wanted of a card to a layout with every place said: a pure function.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::{Piece, fit};
use super::layout::{Instance, Layout, Part};
use super::name::ProfileName;
use super::wanted::{Unfit, Wanted, most};
use crate::inventory::{MigProfile, Placement};
use crate::nvml::{Division, InstanceProfile, ProfileId};

/// A layout that is what is wanted of this card. If there is any, it is found; of all, one that leaves the most instances
/// where they are.
///
/// # Errors
/// [`Unfit`] says why there is none. [`Unfit::Untold`] means that the card must be in the mode first.
pub fn plan(division: &Division, wanted: &Wanted) -> Result<Layout, Unfit> {
    let Some(counts) = wanted.counts(division)? else { return Ok(Layout::disabled()) };
    if counts.is_empty() {
        return Ok(Layout::empty());
    }
    if division.profiles.is_empty() {
        return Err(Unfit::Untold);
    }
    let made = instances(division, &counts)?;
    let pieces: Vec<Piece<'_, ProfileId>> =
        made.iter().map(|(profile, _)| Piece { kind: profile.id, placements: &profile.placements }).collect();
    let there: BTreeSet<(ProfileId, Placement)> =
        division.instances.iter().map(|instance| (instance.profile, instance.placement)).collect();
    let no_room = || Unfit::NoRoom { wanted: Wanted::Devices(counts.clone()).to_string() };
    let places = fit(&pieces, &there).ok_or_else(no_room)?;
    let instance = |((profile, slices), placement): ((&InstanceProfile, Vec<u32>), Placement)| Instance {
        profile: profile.id,
        placement,
        parts: slices.into_iter().map(|slices| Part { slices, placement: None }).collect(),
    };
    let mut instances: Vec<Instance> = made.into_iter().zip(places).map(instance).collect();
    instances.sort_by_key(|instance| instance.placement.start);
    Ok(Layout { enabled: true, instances })
}

/// The GPU instances that these devices take, each with the slices of its compute instances.
fn instances<'a>(
    division: &'a Division,
    counts: &BTreeMap<ProfileName, u32>,
) -> Result<Vec<(&'a InstanceProfile, Vec<u32>)>, Unfit> {
    let mut by_profile: BTreeMap<&MigProfile, (u32, Vec<u32>)> = BTreeMap::new();
    for (name, count) in counts {
        let (whole, parts) = by_profile.entry(&name.instance).or_default();
        match name.compute {
            None => *whole += count,
            Some(slices) => {
                // So many parts never fit: they are counted and not listed.
                let listed = usize::try_from(*count).unwrap_or(usize::MAX).min(1000);
                parts.extend(std::iter::repeat_n(slices, listed));
            }
        }
    }
    let mut made = Vec::new();
    for (name, (whole, parts)) in by_profile {
        let known = division.profiles.iter().find(|profile| profile.name == *name);
        let profile = known.ok_or_else(|| Unfit::no_profile(division, name.0.to_string()))?;
        let cut = pack(parts, profile.slices);
        let count = whole.saturating_add(u32::try_from(cut.len()).unwrap_or(u32::MAX));
        let most = most(profile);
        if count > most {
            return Err(Unfit::TooMany { profile: name.0.to_string(), count, most });
        }
        made.extend((0..whole).map(|_| (profile, vec![profile.slices])));
        made.extend(cut.into_iter().map(|slices| (profile, slices)));
    }
    Ok(made)
}

/// Puts parts into as few GPU instances as they take: the largest first, each where it is the first to fit. Sizes are so
/// few that this is exact for all known cards.
fn pack(mut parts: Vec<u32>, slices: u32) -> Vec<Vec<u32>> {
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let mut bins: Vec<Vec<u32>> = Vec::new();
    for part in parts {
        match bins.iter_mut().find(|bin| bin.iter().sum::<u32>() + part <= slices) {
            Some(bin) => bin.push(part),
            None => bins.push(vec![part]),
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_an_instance_as_long_as_they_fit() {
        for (parts, slices, expected) in [
            (vec![1, 1, 1], 3, vec![vec![1, 1, 1]]),
            (vec![1, 2], 3, vec![vec![2, 1]]),
            (vec![2, 2, 1], 3, vec![vec![2, 1], vec![2]]),
            (vec![1, 3, 2, 1], 7, vec![vec![3, 2, 1, 1]]),
            (vec![], 3, vec![]),
        ] {
            assert_eq!(pack(parts.clone(), slices), expected, "{parts:?}");
        }
    }
}
