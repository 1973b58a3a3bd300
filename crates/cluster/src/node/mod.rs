//! A Kubernetes node as a fact for the engine.

mod cards;
mod mig;

use gpu_scheduler_engine::model::{Node, Taint};

use crate::objects;
use crate::pod::{effect, unknown_effect};
use crate::problem::Finding;
use crate::quantity::{Unreadable, read_list};

pub(crate) use cards::{MOST_CARDS, product};

/// Turns a node object into a fact, with the cards that the node itself tells of. What is wrong with it goes
/// to `findings` and is left out; the node counts all the same. `O(size of the object + cards)`.
pub fn read_node(object: objects::Node, findings: &mut Vec<Finding>) -> Node {
    let mut bad = Vec::new();
    let allocatable = read_list(&object.status.allocatable, "status.allocatable", |_| true, &mut bad);
    let capacity = read_list(&object.status.capacity, "status.capacity", |_| true, &mut bad);
    findings.extend(bad.iter().map(Unreadable::finding));
    // Manifests written by hand often state one of the two. The API server makes allocatable of capacity too.
    let (allocatable, capacity) = match (object.status.allocatable.is_empty(), object.status.capacity.is_empty()) {
        (true, false) => (capacity.clone(), capacity),
        (false, true) => (allocatable.clone(), allocatable),
        _ => (allocatable, capacity),
    };
    let cards = cards::read(&object.metadata, &capacity, findings);
    let taints = taints(object.spec.taints, findings);
    let images = object.status.images.into_iter();
    let images = images.flat_map(|i| i.names.into_iter().map(move |name| (name, i.size_bytes))).collect();
    Node {
        name: object.metadata.name,
        labels: object.metadata.labels,
        taints,
        unschedulable: object.spec.unschedulable,
        allocatable,
        images,
        declared_features: object.status.declared_features,
        cards,
    }
}

fn taints(list: Vec<objects::Taint>, findings: &mut Vec<Finding>) -> Vec<Taint> {
    let mut taints = Vec::with_capacity(list.len());
    for (index, taint) in list.into_iter().enumerate() {
        match effect(&taint.effect) {
            Some(effect) => taints.push(Taint { key: taint.key, value: taint.value, effect }),
            None => findings.push(unknown_effect(format!("spec.taints[{index}].effect"), &taint.effect, "taint")),
        }
    }
    taints
}

#[cfg(test)]
mod tests;
