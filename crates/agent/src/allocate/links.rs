//! Cards that are close to each other.
//!
//! A pair scores as in NVIDIA's `go-gpuallocator`, as far as the inventory tells: 20 on one NUMA node, else 10, and 100 for
//! each NVLink lane between the two. Lanes to an NVSwitch count, which theirs leave out: through it a card reaches every
//! other one that has some.

use crate::inventory::{Card, LinkPeer};

/// Most lanes that count.
const MOST_LANES: u32 = 18;
/// Up to so many cards every set is looked at.
const EXHAUSTIVE: usize = 16;

/// How close two cards are.
pub(super) fn score(a: &Card, b: &Card) -> u32 {
    let direct: u32 = lanes(a, &LinkPeer::Card(b.uuid.clone()));
    let switched = lanes(a, &LinkPeer::Switch).min(lanes(b, &LinkPeer::Switch));
    let near = if a.numa_node.is_some() && a.numa_node == b.numa_node { 20 } else { 10 };
    near + 100 * direct.saturating_add(switched).min(MOST_LANES)
}

fn lanes(card: &Card, to: &LinkPeer) -> u32 {
    card.links.iter().filter(|link| link.peer == *to).map(|link| link.lanes).sum()
}

/// `n` of these cards, with those at `must` among them: the set that is closest, and of equal ones the set that leaves
/// the closest cards behind. Positions in `cards`, ascending; fewer than `n` if there are not so many.
///
/// All sets up to 16 cards (65,536 of them); beyond that the set grows by the closest card.
pub(super) fn closest(cards: &[&Card], must: &[usize], n: usize) -> Vec<usize> {
    let n = n.min(cards.len());
    let pairs: Vec<Vec<u32>> = cards.iter().map(|a| cards.iter().map(|b| score(a, b)).collect()).collect();
    let within = |set: &[usize]| -> u32 {
        set.iter().enumerate().map(|(i, &a)| set[..i].iter().map(|&b| pairs[a][b]).sum::<u32>()).sum()
    };
    if cards.len() > EXHAUSTIVE {
        let mut set = must.to_vec();
        while set.len() < n {
            let close = |&card: &usize| set.iter().map(|&other| pairs[card][other]).sum::<u32>();
            let outside = (0..cards.len()).filter(|card| !set.contains(card));
            let Some(next) = outside.max_by_key(|card| (close(card), std::cmp::Reverse(*card))) else { break };
            set.push(next);
        }
        set.sort_unstable();
        return set;
    }
    let required: u32 = must.iter().fold(0, |mask, &card| mask | 1 << card);
    let members = |mask: u32| (0..cards.len()).filter(|card| mask >> card & 1 == 1).collect::<Vec<_>>();
    let all = (1_u32 << cards.len()) - 1;
    let sets = (0..=all).filter(|mask| mask.count_ones() as usize == n && mask & required == required);
    let best = sets.max_by_key(|&mask| {
        let set = members(mask);
        (within(&set), within(&members(all & !mask)), std::cmp::Reverse(set))
    });
    best.map(members).unwrap_or_default()
}
