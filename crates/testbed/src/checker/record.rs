//! The record of a pod as the checker reads it: what the pod holds of each card.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// What a pod holds of one card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hold {
    /// Whether nobody else may hold anything of it.
    pub whole: bool,
    /// MiB.
    pub memory: u64,
    /// Percent.
    pub compute: u64,
    /// Slices of it.
    pub slices: BTreeSet<String>,
}

/// The holds of a record, each card's by its UUID. Containers that run side by side add up; an init container runs
/// before, so of it and of them the larger counts.
pub(super) fn holds_of(pod: &Pod, record: &str) -> Result<BTreeMap<String, Hold>, String> {
    let value: Value = serde_json::from_str(record).map_err(|e| format!("{record} is no record: {e}"))?;
    let containers = value["containers"].as_array().ok_or_else(|| format!("{record} names no containers"))?;
    let (mut beside, mut before) = (BTreeMap::<String, Hold>::new(), Vec::new());
    for container in containers {
        let whole = container["kind"] == "whole";
        let runs_before = container["name"].as_str().is_some_and(|name| runs_before(pod, name));
        for device in container["devices"].as_array().into_iter().flatten() {
            let uuid = device["uuid"].as_str().ok_or("a device without a UUID")?.to_owned();
            let memory = device["memoryMiB"].as_u64().ok_or("a device without memory")?;
            let compute = device["computePercent"].as_u64().ok_or("a device without compute")?;
            let slices = device["mig"].as_str().map(ToOwned::to_owned).into_iter().collect();
            let hold = Hold { whole, memory, compute, slices };
            if runs_before {
                before.push((uuid, hold));
            } else {
                let sum = beside.entry(uuid).or_default();
                sum.whole |= hold.whole;
                sum.memory += hold.memory;
                sum.compute += hold.compute;
                sum.slices.extend(hold.slices);
            }
        }
    }
    for (uuid, hold) in before {
        let most = beside.entry(uuid).or_default();
        most.whole |= hold.whole;
        most.memory = most.memory.max(hold.memory);
        most.compute = most.compute.max(hold.compute);
        most.slices.extend(hold.slices);
    }
    Ok(beside)
}

/// Whether a container ends before the others start: an init container that is no sidecar.
fn runs_before(pod: &Pod, container: &str) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.filter(|c| c.name == container).any(|c| c.restart_policy.as_deref() != Some("Always"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        let init = json!([{"name": "before"}, {"name": "sidecar", "restartPolicy": "Always"}]);
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "main"}], "initContainers": init}});
        serde_json::from_value(pod).expect("it is a pod")
    }

    fn container(name: &str, kind: &str, memory: u64) -> Value {
        json!({"name": name, "kind": kind, "devices": [{"uuid": "c", "memoryMiB": memory, "computePercent": 10}]})
    }

    #[test]
    fn what_runs_side_by_side_adds_up_and_what_runs_before_counts_if_it_is_more() {
        let hold = |whole, memory, compute| Hold { whole, memory, compute, slices: BTreeSet::new() };
        let share = |memory, compute| hold(false, memory, compute);
        for (containers, expected) in [
            (vec![container("main", "share", 5)], share(5, 10)),
            (vec![container("main", "share", 5), container("sidecar", "share", 4)], share(9, 20)),
            (vec![container("main", "share", 5), container("before", "share", 4)], share(5, 10)),
            (vec![container("main", "share", 5), container("before", "share", 7)], share(7, 10)),
            (vec![container("before", "whole", 9)], hold(true, 9, 10)),
        ] {
            let record = json!({"containers": containers}).to_string();
            assert_eq!(holds_of(&pod(), &record), Ok(BTreeMap::from([("c".to_owned(), expected)])), "{record}");
        }
    }

    #[test]
    fn what_is_no_record_is_said() {
        for record in ["", "[]", "{}", r#"{"containers": [{"devices": [{}]}]}"#] {
            assert!(holds_of(&pod(), record).is_err(), "{record}");
        }
    }
}
