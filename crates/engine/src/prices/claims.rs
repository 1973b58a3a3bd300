//! How much those who can use little else claim of each group.

use crate::prices::market::Market;
use crate::prices::{Learned, ONE};
use crate::state::{GroupId, State};

/// Claims by group, in millionths.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Claims {
    by_group: Vec<i64>,
    cpu_scarcity: Vec<i64>,
}

impl Claims {
    /// For a set A of groups that some demand (part q of all) is bound to, while what is idle in A is at most half of
    /// all that is idle: q times idle over idle in A, summed over the sets that hold the group. One is a fair
    /// part. `O(sets * groups)`.
    pub(super) fn of(state: &State, learned: &Learned, market: &Market) -> Self {
        let groups = state.groups().len();
        let mut by_group = vec![0_i64; groups];
        let all = i128::from(market.free());
        for (set, part) in learned.claims() {
            let free: i128 = set.iter().map(|g| i128::from(market.sums(*g).free)).sum();
            if free * 2 > all || set.is_empty() {
                continue;
            }
            // Nothing idle in the set at all: the claim is as strong as the policy's cap makes it.
            let claim = i64::try_from(i128::from(*part) * all / free.max(1)).unwrap_or(i64::MAX).min(1000 * ONE);
            for group in set.iter().filter(|g| g.index() < groups) {
                by_group[group.index()] = by_group[group.index()].saturating_add(claim);
            }
        }
        let scarcity = |(id, _): (GroupId, _)| {
            let sums = market.sums(id);
            let spare = i128::from(sums.spare_cpu) * i128::from(ONE) / i128::from(sums.cpu.max(1));
            (ONE - i64::try_from(spare).unwrap_or(ONE)).clamp(0, ONE)
        };
        let cpu_scarcity = state.groups().iter().map(scarcity).collect();
        Self { by_group, cpu_scarcity }
    }

    /// The claim on a group.
    pub fn on(&self, group: GroupId) -> i64 {
        self.by_group.get(group.index()).copied().unwrap_or(0)
    }

    /// How much of a group's CPU its idle GPUs need, in millionths of what it has.
    pub fn cpu_scarcity(&self, group: GroupId) -> i64 {
        self.cpu_scarcity.get(group.index()).copied().unwrap_or(0)
    }
}
