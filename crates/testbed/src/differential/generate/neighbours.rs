//! Which other pods a pod wants near, and which not.

use serde_json::{Value, json};

use super::nodes::push;
use super::vocabulary::{APPS, NAMESPACES, TIERS, TOPOLOGIES};
use crate::differential::feature::{Feature, Features};
use crate::draw::Draw;

/// Required and preferred pod affinity and anti-affinity: the feature says which.
pub(super) fn neighbours(draw: &mut Draw, pod: &mut Value, feature: Feature, features: &Features) {
    let affinity = &mut pod["spec"]["affinity"];
    let list = match feature {
        Feature::PodAffinity => &mut affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        Feature::PodAntiAffinity => &mut affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        Feature::PreferredPodAffinity => {
            &mut affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        }
        _ => &mut affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
    };
    for _ in 0..draw.between(1, 2) {
        let term = term(draw, features);
        let preferred = matches!(feature, Feature::PreferredPodAffinity | Feature::PreferredPodAntiAffinity);
        let weight = draw.between(1, 100);
        push(list, if preferred { json!({"weight": weight, "podAffinityTerm": term}) } else { term });
    }
}

fn term(draw: &mut Draw, features: &Features) -> Value {
    let mut term = json!({"topologyKey": draw.pick(&TOPOLOGIES), "labelSelector": selector(draw)});
    if features.contains(&Feature::Namespaces) {
        match draw.below(5) {
            0 => term["namespaces"] = json!([draw.pick(&NAMESPACES)]),
            1 => term["namespaceSelector"] = json!({}),
            2 => term["namespaceSelector"] = json!({"matchLabels": {"team": draw.pick(&NAMESPACES[1..])}}),
            3 => {
                term["namespaces"] = json!([draw.pick(&NAMESPACES)]);
                term["namespaceSelector"] =
                    json!({"matchExpressions": [{"key": "team", "operator": "In", "values": [NAMESPACES[1]]}]});
            }
            _ => {}
        }
    }
    match draw.below(10) {
        0 => term["matchLabelKeys"] = json!(["tier"]),
        1 => term["mismatchLabelKeys"] = json!(["tier"]),
        _ => {}
    }
    term
}

/// A selector of pods.
pub(super) fn selector(draw: &mut Draw) -> Value {
    match draw.below(7) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [draw.pick(&APPS)]}]}),
        2 => json!({"matchLabels": {"app": draw.pick(&APPS), "version": "1"}}),
        3 => json!({"matchExpressions": [{"key": "version", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": draw.pick(&APPS)}}),
    }
}

/// Labels by which pods are selected. A tier is always there, since the API server refuses the keys above without.
pub(super) fn labels(draw: &mut Draw) -> Value {
    let mut labels = json!({"app": draw.pick(&APPS), "tier": draw.pick(&TIERS)});
    if draw.chance(40) {
        labels["version"] = json!(draw.pick(&["1", "2"]));
    }
    labels
}
