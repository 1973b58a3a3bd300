//! From the label's value to what is wanted of each card: by the file, or by the standard names.

use std::collections::BTreeSet;

use thiserror::Error;

use super::file::{All, Devices, Entry, MigFile};
use super::name::ProfileName;
use super::wanted::Wanted;
use crate::inventory::CardIndex;
use crate::nvml::Division;

/// A card, as far as choosing needs it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its place in NVML's enumeration.
    pub index: CardIndex,
    /// What kind it is: `0x<device><vendor>`.
    pub pci_device: u32,
    /// How it is cut; `None` if it cannot be.
    pub division: Option<&'a Division>,
}

/// Why nothing can be wanted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChooseError {
    /// No such configuration.
    #[error("there is no configuration {name:?}; known are {}", .known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Two entries say different things of one card.
    #[error("configuration {name:?} says two things of card {index}; make its entries name different cards")]
    Conflict {
        /// The configuration.
        name: String,
        /// The card.
        index: u32,
    },
    /// A card that has no MIG is named.
    #[error("configuration {name:?} wants MIG of card {index}, which has none; take it out of devices")]
    Incapable {
        /// The configuration.
        name: String,
        /// The card.
        index: u32,
    },
}

/// What the configuration `name` wants of each card, in their order; `None`: it is left as it is.
///
/// # Errors
/// [`ChooseError`] if there is no such configuration, or it contradicts itself or the cards.
pub fn choose(name: &str, file: Option<&MigFile>, cards: &[Facts<'_>]) -> Result<Vec<Option<Wanted>>, ChooseError> {
    let Some(file) = file else { return standard(name, cards) };
    let Some(entries) = file.mig_configs.get(name) else {
        return Err(ChooseError::Unknown { name: name.to_owned(), known: file.mig_configs.keys().cloned().collect() });
    };
    cards.iter().map(|card| of_card(name, entries, card)).collect()
}

fn of_card(name: &str, entries: &[Entry], card: &Facts<'_>) -> Result<Option<Wanted>, ChooseError> {
    let index = card.index.0;
    let mut wanted = None;
    for entry in entries.iter().filter(|entry| entry.is_about(index, card.pci_device)) {
        if card.division.is_none() {
            // Those that are named one by one are meant; all others are passed over.
            if entry.mig_enabled && entry.devices != Devices::Word(All::All) {
                return Err(ChooseError::Incapable { name: name.to_owned(), index });
            }
            continue;
        }
        let this = entry.wanted();
        if wanted.as_ref().is_some_and(|other| *other != this) {
            return Err(ChooseError::Conflict { name: name.to_owned(), index });
        }
        wanted = Some(this);
    }
    Ok(wanted)
}

const DISABLED: &str = "all-disabled";
const ENABLED: &str = "all-enabled";
const BALANCED: &str = "all-balanced";

/// The standard names: as NVIDIA generates them from what the cards say of themselves.
fn standard(name: &str, cards: &[Facts<'_>]) -> Result<Vec<Option<Wanted>>, ChooseError> {
    let all = |wanted: Wanted| Ok(cards.iter().map(|card| card.division.map(|_| wanted.clone())).collect());
    match name {
        DISABLED => return all(Wanted::Disabled),
        ENABLED => return all(Wanted::Devices(Default::default())),
        _ => {}
    }
    let of_card = |card: &Facts<'_>| {
        let division = card.division?;
        let wanted = match name {
            BALANCED => Wanted::Balanced,
            _ => Wanted::Every(name.strip_prefix("all-")?.to_owned()),
        };
        // What the driver does not tell before the card is in the mode may well be there.
        let has = match &wanted {
            Wanted::Every(profile) if division.profiles.is_empty() => is_profile(profile),
            wanted => division.profiles.is_empty() || wanted.counts(division).is_ok(),
        };
        has.then_some(wanted)
    };
    let wanted: Vec<_> = cards.iter().map(of_card).collect();
    if wanted.iter().all(Option::is_none) {
        return Err(ChooseError::Unknown { name: name.to_owned(), known: known(cards) });
    }
    Ok(wanted)
}

/// Whether it is a profile's name with dots for plus signs.
fn is_profile(text: &str) -> bool {
    let Some(end) = text.find("gb") else { return false };
    let (size, attributes) = text.split_at(end + 2);
    let name = size.to_owned() + &attributes.replacen('.', "+", 1);
    name.parse::<ProfileName>().is_ok_and(|name| name.compute.is_none())
}

/// The standard names of these cards.
fn known(cards: &[Facts<'_>]) -> Vec<String> {
    let divisions = || cards.iter().filter_map(|card| card.division);
    let profiles: BTreeSet<String> =
        divisions().flat_map(|division| &division.profiles).map(|profile| profile.name.as_resource()).collect();
    let mut names = vec![DISABLED.to_owned(), ENABLED.to_owned()];
    names.extend(divisions().any(|division| Wanted::Balanced.counts(division).is_ok()).then(|| BALANCED.to_owned()));
    names.extend(profiles.into_iter().map(|profile| format!("all-{profile}")));
    names
}
