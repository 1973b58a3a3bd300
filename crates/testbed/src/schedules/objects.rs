//! The objects of a schedule, as whoever creates them writes them.

use serde_json::{Value, json};

use super::clock::{Instant, rfc3339};
use super::plan::{GroupPlan, Need, NodePlan, PodPlan, Told};
use crate::builders::{GPU, SCHEDULER};

/// Namespace of all pods.
pub const NAMESPACE: &str = "default";
/// Memory of each card, MiB.
pub const CARD_MEMORY: u64 = 81920;
/// Slices of a card that is cut.
pub const SLICES: u32 = 7;
/// Resource of a slice.
const SLICE: &str = "nvidia.com/mig-1g.10gb";
const PRODUCT: &str = "NVIDIA-A100-SXM4-80GB";
/// Who binds pods that are not ours.
const OTHER: &str = "default-scheduler";

/// Name of a card, the same whoever tells of it.
fn uuid(node: &str, card: u32) -> String {
    format!("{node}/gpu-{card}")
}

/// A node.
pub fn node(plan: &NodePlan, uid: &str) -> Value {
    let mut amounts = json!({"cpu": "32", "memory": "256Gi", "pods": "30"});
    let mut labels = json!({"nvidia.com/gpu.memory": CARD_MEMORY.to_string(), "nvidia.com/gpu.product": PRODUCT});
    match plan.told {
        Told::Sliced => {
            amounts[SLICE] = (plan.cards * SLICES).to_string().into();
            labels["nvidia.com/mig.strategy"] = "mixed".into();
        }
        Told::ByLabels | Told::ByAgent | Told::Steered => {
            amounts[GPU] = plan.cards.to_string().into();
            labels["nvidia.com/gpu.count"] = plan.cards.to_string().into();
        }
    }
    json!({"metadata": {"name": plan.name, "uid": uid, "labels": labels},
           "spec": {}, "status": {"capacity": amounts, "allocatable": amounts}})
}

/// A node's report. `sick` are its sick cards, `holders` what pods use of each.
pub fn report(plan: &NodePlan, now: Instant, sick: &[u32], holders: &[Vec<Value>]) -> Value {
    let device = |card: u32| {
        let mut device = json!({"index": card, "uuid": uuid(&plan.name, card), "model": PRODUCT,
            "totalMemoryMiB": CARD_MEMORY, "usedMemoryMiB": 0, "health": "Healthy", "mode": "exclusive",
            "holders": holders.get(card as usize).cloned().unwrap_or_default()});
        if sick.contains(&card) {
            device["health"] = "Unhealthy".into();
            device["healthReason"] = "XID 79".into();
        }
        if plan.told == Told::Sliced {
            device["mode"] = "mig".into();
            let slice = |j| json!({"profile": "1g.10gb", "uuid": format!("MIG-{}-{card}-{j}", plan.name), "start": j});
            device["partitions"] = (0..SLICES).map(slice).collect();
        }
        device
    };
    let devices: Vec<Value> = (0..plan.cards).map(device).collect();
    let agent = json!({"handsOut": plan.told == Told::Steered});
    json!({"metadata": {"name": plan.name},
           "status": {"updatedAt": rfc3339(now), "agent": agent, "devices": devices}})
}

/// A pod group.
pub fn group(plan: &GroupPlan) -> Value {
    json!({"metadata": {"name": plan.name, "namespace": NAMESPACE},
           "spec": {"schedulingPolicy": {"gang": {"minCount": plan.min_count}}}})
}

/// A pod.
pub fn pod(plan: &PodPlan, uid: &str, now: Instant) -> Value {
    let containers: Vec<Value> =
        plan.needs.iter().enumerate().map(|(at, need)| container(&format!("c{at}"), *need)).collect();
    let scheduler = if plan.foreign { OTHER } else { SCHEDULER };
    let mut pod = json!({
        "metadata": {"name": plan.name, "namespace": NAMESPACE, "uid": uid, "creationTimestamp": rfc3339(now)},
        "spec": {"schedulerName": scheduler, "priority": plan.priority, "containers": containers},
        "status": {"phase": "Pending"},
    });
    if let Some(need) = plan.init {
        pod["spec"]["initContainers"] = json!([container("init", need)]);
    }
    if let Some(group) = &plan.group {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    pod
}

fn container(name: &str, need: Need) -> Value {
    let limits = match need {
        Need::Nothing => json!({"cpu": "1"}),
        Need::Cards(count) => json!({ (GPU): count.to_string() }),
        Need::Slices(count) => json!({ (SLICE): count.to_string() }),
        Need::Share { memory, compute, cards } => {
            let mut limits = json!({"gpu-scheduler/memory": format!("{memory}Gi")});
            if compute > 0 {
                limits["gpu-scheduler/compute"] = compute.to_string().into();
            }
            if cards > 1 {
                limits["gpu-scheduler/gpus"] = cards.to_string().into();
            }
            limits
        }
    };
    // The API server makes a limit the request too.
    json!({"name": name, "resources": {"limits": limits, "requests": limits}})
}
