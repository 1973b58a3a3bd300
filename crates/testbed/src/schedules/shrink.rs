//! A smaller schedule that breaks the same rule.

use std::collections::BTreeSet;

use super::broken::Broken;
use super::plan::Plan;

/// Leaves out of a schedule what it breaks its rule without: halves first, then parts one by one, with at most so many
/// tries. `broken` plays a schedule.
pub fn shrink(plan: &Plan, rule: &str, tries: usize, broken: impl Fn(&Plan) -> Option<Broken>) -> Plan {
    let mut kept = plan.parts();
    let mut left = tries;
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let mut smaller = false;
        let mut at = 0;
        while at < kept.len() {
            if left == 0 {
                return plan.clone().only(&kept.into_iter().collect());
            }
            left -= 1;
            let without: Vec<String> = [&kept[..at], &kept[(at + size).min(kept.len())..]].concat();
            let names: BTreeSet<String> = without.iter().cloned().collect();
            if broken(&plan.clone().only(&names)).is_some_and(|broken| broken.rule() == rule) {
                kept = without;
                smaller = true;
            } else {
                at += size;
            }
        }
        // One by one until nothing more can go.
        size = if size == 1 && smaller { 1 } else { size / 2 };
    }
    plan.clone().only(&kept.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_is_broken_without_is_left_out() {
        let plan = Plan::from_seed(5);
        let (pods, faults) = (plan.pods.len(), plan.faults.len());
        assert!(pods > 4 && faults > 0, "{plan}");
        let needed = ["n0", "p1", "p3"];
        let play = |plan: &Plan| {
            let parts = plan.parts();
            let all = needed.iter().all(|part| parts.iter().any(|p| p == part));
            all.then(|| Broken::Invariant("wrong".to_owned()))
        };
        let smaller = shrink(&plan, "invariant", 500, play);
        assert_eq!(smaller.parts(), ["p1", "p3", "n0"]);
        assert_eq!(shrink(&plan, "differs", 500, play), plan, "another rule is another fault");
        let few = shrink(&plan, "invariant", 2, play);
        assert!(play(&few).is_some(), "however few tries there are");
    }
}
