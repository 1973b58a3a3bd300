//! MIG slices of which only the number is known: on which card each may lie.
//!
//! A node says `nvidia.com/mig-1g.10gb: 7` and not which of its cards has them. The engine needs cards, for
//! their models and because a lost card takes its slices along, so some arrangement that the hardware allows
//! is made up here. The order is fixed, so that the same node always gives the same cards.

use std::cmp::Reverse;

use gpu_scheduler_engine::model::{Mib, Partition};

/// Prefix of the resource names of slices.
pub(super) const RESOURCE: &str = "nvidia.com/mig-";

/// Compute slices of a profile and its memory in GB, as its name states them.
pub(super) fn size(profile: &str) -> Option<(u32, u64)> {
    Partition::nominal(profile).filter(|(compute, _)| *compute > 0)
}

/// Compute slices that a card of `model` has.
fn compute_slices(model: &str) -> u32 {
    // All MIG-capable cards have 7, save for the A30 with its 4.
    if model.contains("A30") { 4 } else { 7 }
}

/// Arranges the slices of `profiles` (name and number) on at least `parents` cards, first-fit with the largest
/// first, which needs the fewest cards here. Returns the profiles of each card. Without slices there are no
/// cards: then nothing says that the node has any in MIG mode.
///
/// More than `parents` cards come out where the slices cannot lie on so few: that they exist is a fact, and
/// the number of cards is hearsay.
pub(super) fn arrange(profiles: &[(String, u32)], parents: u32, model: &str, memory: Option<Mib>) -> Vec<Vec<String>> {
    let mut sizes: Vec<(u32, u64, &str, u32)> =
        profiles.iter().filter_map(|(p, n)| size(p).map(|(compute, gb)| (compute, gb, p.as_str(), *n))).collect();
    sizes.sort_unstable_by_key(|(compute, gb, profile, _)| (Reverse(*compute), Reverse(*gb), *profile));
    if sizes.is_empty() {
        return Vec::new();
    }
    let total_gb = memory.map_or(u64::MAX, |memory| memory.0.div_ceil(1024));
    let mut cards: Vec<Card<'_>> = (0..parents).map(|_| Card::new(model, total_gb)).collect();
    for (compute, gb, profile, count) in sizes {
        // Equal slices: where one did not fit, the next will not either, so the search goes on from there.
        let mut at = 0;
        for _ in 0..count {
            while at < cards.len() && !cards[at].fits(compute, gb) {
                at += 1;
            }
            if at == cards.len() {
                cards.push(Card::new(model, total_gb));
            }
            cards[at].put(compute, gb, profile);
        }
    }
    cards.into_iter().map(|card| card.profiles.into_iter().map(str::to_owned).collect()).collect()
}

/// Gives the slices of the card `uuid` names.
pub(super) fn name(uuid: &str, profiles: Vec<String>) -> Vec<Partition> {
    let slices = profiles.into_iter().enumerate();
    slices.map(|(j, profile)| Partition { profile, uuid: format!("{uuid}/mig-{j}"), start: None }).collect()
}

struct Card<'a> {
    compute: u32,
    gb: u64,
    profiles: Vec<&'a str>,
}

impl<'a> Card<'a> {
    fn new(model: &str, gb: u64) -> Self {
        Self { compute: compute_slices(model), gb, profiles: Vec::new() }
    }

    /// Two `3g.40gb` fill the memory of an 80 GB card, although a seventh of its compute is left. A profile's
    /// name rounds its memory up, so a slice counts as one GB less. A slice that is alone always fits: better
    /// a card with a strange slice than a slice without a card.
    fn fits(&self, compute: u32, gb: u64) -> bool {
        self.profiles.is_empty() || (compute <= self.compute && gb.saturating_sub(1) <= self.gb)
    }

    fn put(&mut self, compute: u32, gb: u64, profile: &'a str) {
        self.compute = self.compute.saturating_sub(compute);
        self.gb = self.gb.saturating_sub(gb.saturating_sub(1));
        self.profiles.push(profile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(profiles: &[(&str, u32)], parents: u32, model: &str, memory: Option<u64>) -> Vec<String> {
        let profiles: Vec<_> = profiles.iter().map(|(p, n)| ((*p).to_owned(), *n)).collect();
        arrange(&profiles, parents, model, memory.map(Mib)).into_iter().map(|card| card.join("+")).collect()
    }

    #[test]
    fn slices_find_cards() {
        let sevens = "1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb";
        for (profiles, parents, model, memory, expected) in [
            (vec![("1g.10gb", 7)], 0, "A100", None, vec![sevens]),
            (vec![("1g.10gb", 8)], 0, "A100", None, vec![sevens, "1g.10gb"]),
            (vec![("1g.10gb", 1)], 3, "A100", None, vec!["1g.10gb", "", ""]),
            (vec![("1g.10gb", 8)], 1, "A100", None, vec![sevens, "1g.10gb"]),
            (
                vec![("1g.10gb", 3), ("3g.40gb", 1), ("2g.20gb", 1)],
                0,
                "A100",
                None,
                vec!["3g.40gb+2g.20gb+1g.10gb+1g.10gb", "1g.10gb"],
            ),
            (vec![("3g.40gb", 2), ("1g.10gb", 1)], 0, "H100", Some(81_559), vec!["3g.40gb+3g.40gb", "1g.10gb"]),
            (vec![("3g.71gb", 2)], 0, "H200", Some(143_771), vec!["3g.71gb+3g.71gb"]),
            (vec![("1g.20gb", 5)], 0, "A100", Some(81_920), vec!["1g.20gb+1g.20gb+1g.20gb+1g.20gb", "1g.20gb"]),
            (vec![("2g.12gb", 2), ("1g.6gb", 1)], 0, "NVIDIA-A30", None, vec!["2g.12gb+2g.12gb", "1g.6gb"]),
            (vec![("7g.80gb", 1)], 0, "NVIDIA-A30", Some(1), vec!["7g.80gb"]),
            (vec![("odd", 5)], 2, "A100", None, vec![]),
            (vec![], 2, "A100", None, vec![]),
        ] {
            assert_eq!(arranged(&profiles, parents, model, memory), expected, "{profiles:?} on {parents} of {model}");
        }
    }
}
