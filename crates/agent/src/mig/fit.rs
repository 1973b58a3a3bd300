//! Finds places on an axis for things that each may lie at some of them: the search behind every plan.

use std::collections::BTreeSet;

use crate::inventory::Placement;

/// A thing to be placed: what it is, and where its kind may lie.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a, K> {
    /// Its kind. Pieces of one kind are alike.
    pub kind: K,
    /// Where it may lie.
    pub placements: &'a [Placement],
}

/// Places for all pieces, in their order, so that none overlap; `None` if there are none. Of all that fit, the places
/// that keep the most of `there`, and of those the first by start.
///
/// It tries everything, so what fits in some order is always found. A card has at most a dozen units, and pieces of one
/// kind are tried in one order only, so the worst of the known models takes some thousand steps.
pub fn fit<K: Copy + Ord>(pieces: &[Piece<'_, K>], there: &BTreeSet<(K, Placement)>) -> Option<Vec<Placement>> {
    let axis = pieces.iter().flat_map(|piece| piece.placements).map(end).max().unwrap_or(0);
    let smallest = |piece: &Piece<'_, K>| piece.placements.iter().map(|place| u64::from(place.size)).min();
    // Pieces that lie nowhere, or are more than the axis holds whatever the order, need no search.
    let needed = pieces.iter().map(smallest).sum::<Option<u64>>()?;
    if needed > u64::from(axis) {
        return None;
    }
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    let size = |index: &usize| pieces[*index].placements.first().map_or(0, |place| place.size);
    // The largest first: they have the fewest places. Pieces of one kind stay together.
    order.sort_by_key(|index| (std::cmp::Reverse(size(index)), pieces[*index].kind));
    let mut search = Search { pieces, order: &order, there, best: None, placed: Vec::new(), kept: 0 };
    search.go();
    let (_, found) = search.best?;
    let mut places = vec![Placement { start: 0, size: 0 }; pieces.len()];
    for (index, place) in order.iter().zip(found) {
        places[*index] = place;
    }
    Some(places)
}

struct Search<'a, K> {
    pieces: &'a [Piece<'a, K>],
    order: &'a [usize],
    there: &'a BTreeSet<(K, Placement)>,
    best: Option<(usize, Vec<Placement>)>,
    placed: Vec<Placement>,
    kept: usize,
}

impl<K: Copy + Ord> Search<'_, K> {
    fn go(&mut self) {
        let at = self.placed.len();
        let left = self.order.len() - at;
        let can_keep = self.kept + left.min(self.there.len() - self.kept);
        if self.best.as_ref().is_some_and(|(kept, _)| *kept >= can_keep) {
            return;
        }
        let Some(index) = self.order.get(at) else {
            self.best = Some((self.kept, self.placed.clone()));
            return;
        };
        let piece = self.pieces[*index];
        let before = at.checked_sub(1).filter(|last| self.pieces[self.order[*last]].kind == piece.kind);
        let after = before.map(|last| self.placed[last].start);
        let mut places: Vec<Placement> = piece.placements.to_vec();
        places.sort_by_key(|place| place.start);
        for place in places {
            let in_order = after.is_none_or(|start| place.start > start);
            if !in_order || self.placed.iter().any(|other| overlap(*other, place)) {
                continue;
            }
            let keeps = usize::from(self.there.contains(&(piece.kind, place)));
            self.placed.push(place);
            self.kept += keeps;
            self.go();
            self.kept -= keeps;
            self.placed.pop();
        }
    }
}

fn end(place: &Placement) -> u32 {
    place.start.saturating_add(place.size)
}

/// Whether two places have a unit in common.
pub fn overlap(a: Placement, b: Placement) -> bool {
    a.start < end(&b) && b.start < end(&a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u32, size: u32) -> Placement {
        Placement { start, size }
    }

    #[test]
    fn what_fits_in_some_order_is_found() {
        let ones: Vec<_> = (0..7).map(|start| at(start, 1)).collect();
        let twos = [0, 2, 4].map(|start| at(start, 2));
        let threes = [0, 4].map(|start| at(start, 4));
        let piece = |kind: u32| {
            let placements: &[Placement] = match kind {
                1 => &ones,
                2 => &twos,
                _ => &threes,
            };
            Piece { kind, placements }
        };
        let none = BTreeSet::new();
        for (kinds, expected) in [
            (&[1, 1, 1, 1, 1, 1, 1][..], Some(vec![0, 1, 2, 3, 4, 5, 6])),
            (&[1; 8], None),
            // The first place for three slices leaves no room for the last single one.
            (&[1, 1, 2, 3], Some(vec![2, 3, 0, 4])),
            (&[3, 3], Some(vec![0, 4])),
            (&[2, 3], Some(vec![4, 0])),
            (&[2, 2, 2], Some(vec![0, 2, 4])),
            (&[2, 2, 2, 2], None),
            (&[3, 3, 1], None),
            (&[], Some(vec![])),
        ] {
            let pieces: Vec<_> = kinds.iter().map(|kind| piece(*kind)).collect();
            let found = fit(&pieces, &none).map(|places| places.iter().map(|place| place.start).collect::<Vec<_>>());
            assert_eq!(found, expected, "{kinds:?}");
        }
        assert!(fit(&[Piece { kind: 0, placements: &[] }], &none).is_none());
    }

    #[test]
    fn what_is_there_stays_where_it_can() {
        let twos = [0, 2, 4].map(|start| at(start, 2));
        let fours = [at(0, 4)];
        let two = Piece { kind: 2, placements: &twos };
        let starts = |pieces: &[Piece<'_, u32>], there: &[(u32, Placement)]| {
            let there = there.iter().copied().collect();
            fit(pieces, &there).map(|places| places.iter().map(|place| place.start).collect::<Vec<_>>())
        };
        assert_eq!(starts(&[two], &[(2, at(4, 2))]), Some(vec![4]));
        assert_eq!(starts(&[two, two], &[(2, at(2, 2)), (2, at(4, 2))]), Some(vec![2, 4]));
        // What lies in the way does not.
        let four = Piece { kind: 4, placements: &fours };
        assert_eq!(starts(&[two, four], &[(2, at(2, 2))]), Some(vec![4, 0]));
    }
}
