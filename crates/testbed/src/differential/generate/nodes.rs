//! Nodes, and who tolerates what they have against pods.

use serde_json::{Value, json};

use super::vocabulary::{DISKS, DRIVER, HOSTNAME, IMAGES, RACK, RACKS, WIDGET, ZONE, ZONES, node_name};
use crate::differential::feature::{Feature, Features};
use crate::draw::Draw;

/// Nodes of a cluster, and the `CSINode`s that go with them.
pub(super) fn nodes(draw: &mut Draw, features: &Features) -> Vec<Value> {
    let count = draw.between(5, 20);
    // Alike nodes give ties, unlike ones give winners.
    let alike = draw.chance(45);
    let size = Size::draw(draw);
    let mut objects = Vec::new();
    for number in 0..count {
        let size = if alike { size } else { Size::draw(draw) };
        objects.push(node(draw, features, number, size));
        if features.contains(&Feature::VolumeLimits) {
            let limit = draw.between(1, 3);
            objects.push(json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": node_name(number)},
                "spec": {"drivers": [
                    {"name": DRIVER, "nodeID": node_name(number), "topologyKeys": [], "allocatable": {"count": limit}},
                ]},
            }));
        }
    }
    objects
}

#[derive(Debug, Clone, Copy)]
struct Size {
    cpu: &'static str,
    memory: &'static str,
    storage: &'static str,
}

impl Size {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            cpu: draw.pick(&["2", "3500m", "4", "6", "8"]),
            memory: draw.pick(&["2Gi", "3000Mi", "4Gi", "7G", "8Gi"]),
            storage: draw.pick(&["5Gi", "20Gi", "100Gi"]),
        }
    }
}

fn node(draw: &mut Draw, features: &Features, number: usize, size: Size) -> Value {
    let name = node_name(number);
    let mut labels = json!({
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-1",
        "generation": draw.between(1, 9).to_string(),
    });
    // Nodes that lack a label are what rules differ about.
    if draw.chance(90) {
        labels[ZONE] = json!(draw.pick(&ZONES));
    }
    if draw.chance(80) {
        labels[RACK] = json!(draw.pick(&RACKS));
    }
    if draw.chance(70) {
        labels["disk"] = json!(draw.pick(&DISKS));
    }
    let pods = if features.contains(&Feature::PodLimit) && draw.chance(50) { draw.between(1, 4) } else { 110 };
    let mut resources = json!({
        "cpu": size.cpu, "memory": size.memory, "ephemeral-storage": size.storage, "pods": pods.to_string(),
    });
    if features.contains(&Feature::ExtendedResources) && draw.chance(60) {
        resources[WIDGET] = json!(draw.between(1, 4).to_string());
        resources["hugepages-2Mi"] = json!(draw.pick(&["64Mi", "128Mi"]));
    }
    let mut status = json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}],
    });
    if features.contains(&Feature::Images) {
        let present = draw.between(0, 2);
        status["images"] = draw
            .some(&IMAGES, present)
            .into_iter()
            .map(|(image, size)| json!({"names": [image], "sizeBytes": size}))
            .collect();
    }
    let mut spec = json!({});
    let taints = taints(draw, features);
    if !taints.is_empty() {
        spec["taints"] = taints.into();
    }
    if features.contains(&Feature::Cordons) && draw.chance(25) {
        spec["unschedulable"] = json!(true);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status,
    })
}

fn taints(draw: &mut Draw, features: &Features) -> Vec<Value> {
    let mut taints = Vec::new();
    let mut taint = |key, value, effect| taints.push(json!({"key": key, "value": value, "effect": effect}));
    if features.contains(&Feature::Taints) && draw.chance(35) {
        match draw.below(4) {
            0 => taint("dedicated", "ml", "NoSchedule"),
            1 => taint("dedicated", "db", "NoExecute"),
            2 => taint("flaky", "", "NoSchedule"),
            _ => {
                taint("dedicated", "ml", "NoSchedule");
                taint("flaky", "yes", "NoExecute");
            }
        }
    }
    if features.contains(&Feature::SoftTaints) && draw.chance(50) {
        taint("old", "yes", "PreferNoSchedule");
        if draw.chance(40) {
            taint("slow", "very", "PreferNoSchedule");
        }
    }
    taints
}

/// What a pod tolerates of [`Feature::Taints`].
pub(super) fn tolerate_taints(draw: &mut Draw, pod: &mut Value) {
    let toleration = match draw.below(7) {
        0 => json!({"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}),
        1 => json!({"key": "dedicated", "value": "ml"}),
        2 => json!({"key": "dedicated", "operator": "Exists"}),
        3 => {
            json!({"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoExecute", "tolerationSeconds": 60})
        }
        4 => json!({"operator": "Exists"}),
        5 => json!({"key": "flaky", "operator": "Equal", "value": ""}),
        _ => json!({"operator": "Exists", "effect": "NoSchedule"}),
    };
    push(&mut pod["spec"]["tolerations"], toleration);
}

/// What a pod tolerates of [`Feature::SoftTaints`].
pub(super) fn tolerate_soft_taints(draw: &mut Draw, pod: &mut Value) {
    let toleration = match draw.below(4) {
        0 => json!({"key": "old", "operator": "Exists", "effect": "PreferNoSchedule"}),
        1 => json!({"key": "slow", "value": "very"}),
        // Says nothing about a preference, so it does not count for one.
        2 => json!({"key": "old", "operator": "Exists", "effect": "NoSchedule"}),
        _ => json!({"operator": "Exists", "effect": "PreferNoSchedule"}),
    };
    push(&mut pod["spec"]["tolerations"], toleration);
}

/// Tolerates that a node is cordoned, as a daemon does.
pub(super) fn tolerate_cordon(pod: &mut Value) {
    let toleration = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"});
    push(&mut pod["spec"]["tolerations"], toleration);
}

/// Appends to a list that may not be there yet.
pub(super) fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}
