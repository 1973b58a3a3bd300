//! How evenly pods are to lie over the failure domains.

use serde_json::{Value, json};

use super::neighbours::selector;
use super::nodes::push;
use super::vocabulary::{APPS, TOPOLOGIES};
use crate::differential::feature::{Feature, Features};
use crate::draw::Draw;

/// Constraints that must hold, or had better.
pub(super) fn spread(draw: &mut Draw, pod: &mut Value, hard: bool, features: &Features) {
    let action = if hard { "DoNotSchedule" } else { "ScheduleAnyway" };
    let count = draw.between(1, 2);
    for key in draw.some(&TOPOLOGIES, count) {
        let own = pod["metadata"]["labels"]["app"].clone();
        // Mostly itself, as people write them.
        let selector = if draw.chance(70) { json!({"matchLabels": {"app": own}}) } else { selector(draw) };
        let mut constraint = json!({
            "maxSkew": draw.between(1, 3), "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector,
        });
        if features.contains(&Feature::SpreadPolicies) {
            policies(draw, &mut constraint, hard);
        }
        push(&mut pod["spec"]["topologySpreadConstraints"], constraint);
    }
}

fn policies(draw: &mut Draw, constraint: &mut Value, hard: bool) {
    // The API server refuses it on a constraint that need not hold.
    if hard && draw.chance(40) {
        constraint["minDomains"] = json!(draw.between(1, 5));
    }
    if draw.chance(40) {
        constraint["nodeAffinityPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
    }
    if draw.chance(40) {
        constraint["nodeTaintsPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
    }
    if draw.chance(30) {
        constraint["matchLabelKeys"] = json!(["tier"]);
    }
}

/// Services: their pods are spread even if they do not say so.
pub(super) fn services(draw: &mut Draw) -> Vec<Value> {
    let count = draw.between(1, 2);
    let apps = draw.some(&APPS, count);
    let service = |app: &&str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": "default"},
            "spec": {"clusterIP": "None", "selector": {"app": app}, "ports": [{"port": 80}]},
        })
    };
    apps.iter().map(service).collect()
}
