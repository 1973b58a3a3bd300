//! What every cluster has: classes and namespaces.

use serde_json::{Value, json};

use super::vocabulary::{AT_ONCE, CLASSES, CRITICAL, DRIVER, FIXED, LATE, MADE, NAMESPACES, RUNTIMES, ZONE, ZONES};

/// The objects that are there before any cluster is made, and stay.
#[must_use]
pub fn fixtures() -> Vec<Value> {
    let mut objects = Vec::new();
    for namespace in &NAMESPACES[1..] {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {"team": namespace}},
        }));
    }
    for (name, value) in CLASSES.iter().zip([-100, 0, 100, 1000]) {
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            // Pods of no class preempt nobody either.
            "value": value, "globalDefault": value == 0, "preemptionPolicy": "Never",
        }));
    }
    objects.push(json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CRITICAL}, "value": 5000,
    }));
    for (name, cpu, memory) in [(RUNTIMES[0], "50m", "16Mi"), (RUNTIMES[1], "250m", "300Mi")] {
        objects.push(json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name},
            "handler": name, "overhead": {"podFixed": {"cpu": cpu, "memory": memory}},
        }));
    }
    objects.extend(storage_classes());
    objects
}

fn storage_classes() -> [Value; 4] {
    let class = |name: &str, provisioner: &str, mode: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": mode,
        })
    };
    let mut made = class(MADE, DRIVER, "WaitForFirstConsumer");
    made["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": ZONE, "values": &ZONES[..2]}]}]);
    [
        class(LATE, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        made,
        class(AT_ONCE, DRIVER, "Immediate"),
        class(FIXED, "kubernetes.io/no-provisioner", "Immediate"),
    ]
}
