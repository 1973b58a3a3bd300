//! What victims are worth: by this, and by nothing else, preemption chooses between nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::generate::{fixtures, key};

/// When the `number`th pod began to run: a second after the one before.
pub(super) fn started(number: usize) -> String {
    let minutes = number / 60;
    format!("2025-01-01T{:02}:{:02}:{:02}Z", minutes / 60, minutes % 60, number % 60)
}

/// A pod that is on its node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Live {
    /// The object, with its node.
    pub pod: Value,
    /// When it began to run, by its number.
    pub started: usize,
}

impl Live {
    pub(super) fn node(&self) -> &str {
        self.pod["spec"]["nodeName"].as_str().unwrap_or_default()
    }

    /// What its class says; a pod without one is of the class `normal`.
    fn priority(&self) -> i64 {
        let class = self.pod["spec"]["priorityClassName"].as_str().unwrap_or("normal");
        let classes = fixtures();
        let found = classes.iter().find(|o| o["kind"] == "PriorityClass" && o["metadata"]["name"] == class);
        found.and_then(|class| class["value"].as_i64()).unwrap_or_default()
    }
}

/// What the victims of a preemption cost, in the order in which kube-scheduler compares: least first, but for the
/// last, of which it wants the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Worth {
    pub violations: usize,
    pub highest: i64,
    pub sum: i64,
    pub count: usize,
    /// The earliest start of those with the highest priority.
    pub started: usize,
}

/// What these victims on a node are worth to somebody of a higher priority than all of them.
pub(super) fn worth(
    live: &BTreeMap<String, Live>,
    budgets: &[&Value],
    node: &str,
    victims: &BTreeSet<String>,
) -> Worth {
    let mut on_node: Vec<&Live> = live.values().filter(|pod| pod.node() == node).collect();
    // The more important ones use the budgets up first.
    on_node.sort_by_key(|pod| (-pod.priority(), pod.started));
    let mut left: Vec<i64> =
        budgets.iter().map(|budget| budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default()).collect();
    let mut worth = Worth { violations: 0, highest: i64::MIN, sum: 0, count: 0, started: 0 };
    for pod in on_node {
        let mut violates = false;
        for (_, left) in budgets.iter().zip(&mut left).filter(|(budget, _)| covers(budget, &pod.pod)) {
            *left -= 1;
            violates |= *left < 0;
        }
        if !victims.contains(&key(&pod.pod)) {
            continue;
        }
        worth.violations += usize::from(violates);
        worth.sum += pod.priority() + (1 << 31);
        worth.count += 1;
        if pod.priority() > worth.highest {
            (worth.highest, worth.started) = (pod.priority(), pod.started);
        }
    }
    worth
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let app = &budget["spec"]["selector"]["matchLabels"]["app"];
    budget["metadata"]["namespace"] == pod["metadata"]["namespace"] && *app == pod["metadata"]["labels"]["app"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn budgets_are_used_up_by_the_more_important() {
        let pod = |name: &str, class: &str| {
            json!({
                "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
                "spec": {"nodeName": "n1", "priorityClassName": class},
            })
        };
        let pods = [pod("a", "low"), pod("b", "high"), pod("c", "low")];
        let live: BTreeMap<String, Live> =
            pods.into_iter().enumerate().map(|(started, pod)| (key(&pod), Live { pod, started })).collect();
        let budget = json!({
            "metadata": {"namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 2},
        });
        let of = |names: &[&str]| {
            let victims = names.iter().map(|name| format!("default/{name}")).collect();
            worth(&live, &[&budget], "n1", &victims)
        };
        let sum = |priorities: &[i64]| priorities.iter().map(|priority| priority + (1_i64 << 31)).sum();
        let all = Worth { violations: 1, highest: 100, sum: sum(&[-100, 100, -100]), count: 3, started: 1 };
        assert_eq!(of(&["a", "b", "c"]), all);
        assert_eq!(of(&["a"]), Worth { violations: 0, highest: -100, sum: sum(&[-100]), count: 1, started: 0 });
        assert_eq!(of(&["c"]), Worth { violations: 1, highest: -100, sum: sum(&[-100]), count: 1, started: 2 });
    }
}
