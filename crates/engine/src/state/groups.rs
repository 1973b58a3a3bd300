//! Groups of alike nodes: the same cards, and about the same CPU and memory.
//!
//! What is constant over a group (a price, a claim) is worked out once for it. CPU and memory are rounded
//! down to five leading bits (steps of 3 to 6 %), so that machines that differ by what their kubelet
//! reserves stay together.

use crate::collections::Lookup;
use crate::model::ids::slot;
use crate::model::{Mib, ModelId};
use crate::state::NodeState;

slot! {
    /// A group of alike nodes.
    GroupId
}

/// What the nodes of a group have when they are empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Group {
    /// Model and memory of each card, sorted.
    pub cards: Vec<(ModelId, Mib)>,
    /// Milli-cores, rounded down.
    pub cpu: i64,
    /// Bytes, rounded down.
    pub memory: i64,
}

/// All groups that ever were.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Groups {
    groups: Vec<Group>,
    #[serde(skip)]
    index: Lookup<Group, GroupId>,
}

impl Groups {
    /// The group of a node, made if it is new; `None` for a ghost.
    pub(super) fn of(&mut self, node: &NodeState) -> Option<GroupId> {
        let facts = node.facts()?;
        let present = node.ledger().cards().iter().filter(|c| c.present());
        let mut cards: Vec<_> = present.map(|c| (c.model(), c.spec().memory.unwrap_or_default())).collect();
        cards.sort_unstable();
        let allocatable = facts.allocatable();
        let group = Group { cards, cpu: leading_bits(allocatable.cpu), memory: leading_bits(allocatable.memory) };
        if let Some(id) = self.index.get(&group) {
            return Some(*id);
        }
        let id = GroupId::from_index(self.groups.len());
        self.groups.push(group.clone());
        self.index.insert(group, id);
        Some(id)
    }

    /// After the groups were read back.
    pub(super) fn make_index(&mut self) {
        let ids = (0..self.groups.len()).map(GroupId::from_index);
        self.index = self.groups.iter().cloned().zip(ids).collect();
    }

    /// A group.
    pub fn get(&self, id: GroupId) -> &Group {
        &self.groups[id.index()]
    }

    /// Groups with their ids, in order of their first node.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().enumerate().map(|(at, group)| (GroupId::from_index(at), group))
    }

    /// How many there are: ids run below this.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// `n` with all but its five leading bits cleared.
fn leading_bits(n: i64) -> i64 {
    let bits = 64 - n.max(0).leading_zeros();
    let cut = bits.saturating_sub(5);
    (n.max(0) >> cut) << cut
}

#[cfg(test)]
mod tests {
    use super::leading_bits;

    #[test]
    fn rounding() {
        for (n, expected) in
            [(0, 0), (31, 31), (33, 32), (96_000, 94_208), (104_000, 102_400), (128_000, 126_976), (-4, 0)]
        {
            assert_eq!(leading_bits(n), expected, "{n}");
        }
    }
}
