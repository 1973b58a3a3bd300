use gpu_scheduler_engine::model::{Effect, Mib, Partitioning};
use serde_json::json;

use super::*;

fn read(object: serde_json::Value) -> (Node, Vec<String>) {
    let object: objects::Node = serde_json::from_value(object).expect("a node object");
    let mut findings = Vec::new();
    let node = read_node(object, &mut findings);
    (node, findings.into_iter().map(|f| f.field).collect())
}

/// Short description of the cards of a node with these labels (below `nvidia.com/`) and this capacity.
fn cards(labels: &[(&str, &str)], capacity: &[(&str, u64)]) -> (Vec<String>, Vec<String>) {
    let labels: serde_json::Map<_, _> = labels.iter().map(|(k, v)| (format!("nvidia.com/{k}"), json!(v))).collect();
    let capacity: serde_json::Map<_, _> =
        capacity.iter().map(|(k, v)| (format!("nvidia.com/{k}"), json!(v.to_string()))).collect();
    let (node, findings) = read(json!({"metadata": {"name": "n", "labels": labels}, "status": {"capacity": capacity}}));
    let cards = node.cards.iter().map(|card| {
        let memory = card.memory.map_or("?".to_owned(), |Mib(mib)| mib.to_string());
        let how = match &card.partitioning {
            Partitioning::OnDemand => String::new(),
            Partitioning::TimeSliced { seats } => format!(" x{seats}"),
            Partitioning::Mig(slices) => {
                slices.iter().map(|s| format!(" {}@{}", s.profile, s.uuid)).collect::<String>() + " mig"
            }
        };
        format!("{}={} {}:{memory}{how}", card.index, card.uuid, card.model)
    });
    (cards.collect(), findings)
}

#[test]
fn plain_cards() {
    for (labels, capacity, expected, wrong) in [
        (vec![], vec![], vec![], vec![]),
        (vec![], vec![("gpu", 1)], vec!["0=n/gpu-0 unknown:?"], vec![]),
        (
            vec![("gpu.product", "T4"), ("gpu.memory", "15360")],
            vec![("gpu", 2)],
            vec!["0=n/gpu-0 T4:15360", "1=n/gpu-1 T4:15360"],
            vec![],
        ),
        (
            vec![("gpu.memory", "lots")],
            vec![("gpu", 1)],
            vec!["0=n/gpu-0 unknown:?"],
            vec!["metadata.labels.nvidia.com/gpu.memory"],
        ),
        (vec![("gpu.memory", "0")], vec![("gpu", 1)], vec!["0=n/gpu-0 unknown:?"], vec![]),
        (vec![("gpu.count", "4")], vec![("gpu", 1)], vec!["0=n/gpu-0 unknown:?"], vec![]),
        (vec![], vec![("gpu.shared", 4)], vec![], vec![]),
    ] {
        let (cards, findings) = cards(&labels, &capacity);
        assert_eq!(
            (cards, findings),
            (expected.into_iter().map(str::to_owned).collect(), wrong.into_iter().map(str::to_owned).collect()),
            "{labels:?}"
        );
    }
}

#[test]
fn time_sliced_cards() {
    let product = ("gpu.product", "T4-SHARED");
    let replicas = ("gpu.replicas", "4");
    let two = vec!["0=n/gpu-0 T4:? x4", "1=n/gpu-1 T4:? x4"];
    for (labels, capacity, expected, wrong) in [
        (vec![product, replicas], vec![("gpu", 8)], two.clone(), 0),
        (vec![product, replicas], vec![("gpu.shared", 8)], two.clone(), 0),
        (vec![product, replicas], vec![("gpu", 8), ("gpu.shared", 8)], two.clone(), 0),
        (vec![product, replicas], vec![("gpu", 0), ("gpu.shared", 8)], two.clone(), 0),
        (vec![product, replicas], vec![("gpu", 9)], two, 1),
        (vec![product, ("gpu.replicas", "1")], vec![("gpu", 1)], vec!["0=n/gpu-0 T4:?"], 0),
        (vec![product, ("gpu.replicas", "0")], vec![("gpu", 1)], vec!["0=n/gpu-0 T4:?"], 0),
        (vec![product, ("gpu.replicas", "x")], vec![("gpu", 1)], vec!["0=n/gpu-0 T4:?"], 1),
    ] {
        let (cards, findings) = cards(&labels, &capacity);
        assert_eq!(cards, expected, "{labels:?} {capacity:?}");
        assert_eq!(findings.len(), wrong, "{findings:?}");
    }
}

#[test]
fn mig_cards_come_after_the_others() {
    let (found, findings) = cards(
        &[("gpu.product", "A100"), ("gpu.count", "3"), ("gpu.replicas", "1")],
        &[("gpu", 1), ("mig-3g.40gb", 1), ("mig-1g.10gb", 1)],
    );
    assert_eq!(
        found,
        [
            "0=n/gpu-0 A100:?",
            "1=n/gpu-1 A100:? 3g.40gb@n/gpu-1/mig-0 1g.10gb@n/gpu-1/mig-1 mig",
            "2=n/gpu-2 A100:? mig",
        ]
    );
    assert_eq!(findings, Vec::<String>::new());
    let (found, findings) =
        cards(&[("mig-1g.5gb.replicas", "2")], &[("mig-1g.5gb", 2), ("mig-1g.5gb.shared", 4), ("mig-big", 1)]);
    assert_eq!(found, ["0=n/gpu-0 unknown:? 1g.5gb@n/gpu-0/mig-0 mig"]);
    assert_eq!(findings, ["metadata.labels.nvidia.com/mig-1g.5gb.replicas", "status.capacity.nvidia.com/mig-big"]);
}

#[test]
fn absurd_numbers_cost_nothing() {
    let (found, findings) = cards(&[("gpu.count", "99999999999")], &[("gpu", u64::MAX), ("mig-1g.5gb", u64::MAX)]);
    assert!(found.len() < 3 * 4096);
    assert_eq!(findings, ["status.capacity.nvidia.com/gpu", "status.capacity.nvidia.com/mig-1g.5gb"]);
}

#[test]
fn the_rest_of_a_node() {
    let (node, findings) =
        read(json!({"metadata": {"name": "n", "labels": {"a": null}}, "spec": {"unschedulable": true,
        "taints": [{"key": "k", "effect": "NoExecute", "value": "v"}, {"key": "x", "effect": "Sometimes"}, null]},
        "status": {"allocatable": {"cpu": "4", "pods": 110, "memory": "much"}, "capacity": null}}));
    assert!(node.unschedulable);
    assert_eq!(node.labels["a"], "");
    assert_eq!(node.taints, [Taint { key: "k".into(), value: "v".into(), effect: Effect::NoExecute }]);
    assert_eq!(node.allocatable.keys().collect::<Vec<_>>(), ["cpu", "pods"]);
    assert_eq!(findings, ["status.allocatable.memory", "spec.taints[1].effect"]);
}

#[test]
fn capacity_and_allocatable_stand_in_for_each_other() {
    let amounts = json!({"cpu": "4", "nvidia.com/gpu": 2});
    for status in [json!({"capacity": amounts}), json!({"allocatable": amounts})] {
        let (node, findings) = read(json!({"metadata": {"name": "n"}, "status": status}));
        assert_eq!((node.cards.len(), node.allocatable["cpu"].value()), (2, 4), "{status}");
        assert_eq!(findings, Vec::<String>::new());
    }
    let both = json!({"capacity": amounts, "allocatable": {"cpu": "4", "nvidia.com/gpu": 0}});
    let (node, _) = read(json!({"metadata": {"name": "n"}, "status": both}));
    assert_eq!((node.cards.len(), node.allocatable["nvidia.com/gpu"].value()), (2, 0));
}
