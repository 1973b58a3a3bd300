//! Which nodes a pod wants, by their labels and names.

use serde_json::{Value, json};

use super::nodes::push;
use super::vocabulary::{DISKS, HOSTNAME, RACK, RACKS, ZONE, ZONES, node_name};
use crate::draw::Draw;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `nodeSelector`.
pub(super) fn node_selector(draw: &mut Draw, pod: &mut Value) {
    let (key, value) = match draw.below(4) {
        0 => ("disk", draw.pick(&DISKS)),
        1 => (RACK, draw.pick(&RACKS)),
        _ => (ZONE, draw.pick(&ZONES)),
    };
    pod["spec"]["nodeSelector"][key] = json!(value);
}

/// Required terms on labels.
pub(super) fn node_affinity(draw: &mut Draw, pod: &mut Value) {
    let terms: Vec<Value> = (0..draw.between(1, 2)).map(|_| term(draw)).collect();
    for term in terms {
        push(&mut pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"], term);
    }
}

/// Required terms on names, which narrow the search before any node is looked at. Beside terms on labels they do not.
pub(super) fn node_names(draw: &mut Draw, pod: &mut Value, nodes: usize) {
    let field = |operator: &str, number: usize| json!({"key": "metadata.name", "operator": operator, "values": [node_name(number)]});
    for _ in 0..draw.between(1, 2) {
        // One past the last is a node that does not exist.
        let number = draw.below(nodes + 1);
        let term = match draw.below(5) {
            0 => json!({"matchFields": [field("NotIn", number)]}),
            // Two names at once contradict each other, unless they are the same.
            1 => json!({"matchFields": [field("In", number), field("In", draw.below(nodes))]}),
            2 => {
                let expression = expression(draw);
                json!({"matchFields": [field("In", number)], "matchExpressions": [expression]})
            }
            _ => json!({"matchFields": [field("In", number)]}),
        };
        push(&mut pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"], term);
    }
}

/// Preferred terms.
pub(super) fn preferred(draw: &mut Draw, pod: &mut Value) {
    for _ in 0..draw.between(1, 3) {
        let weighted = json!({"weight": draw.between(1, 100), "preference": term(draw)});
        push(&mut pod["spec"]["affinity"]["nodeAffinity"][PREFERRED], weighted);
    }
}

fn term(draw: &mut Draw) -> Value {
    let expressions: Vec<Value> = (0..draw.between(1, 2)).map(|_| expression(draw)).collect();
    json!({"matchExpressions": expressions})
}

fn expression(draw: &mut Draw) -> Value {
    match draw.below(8) {
        0 => json!({"key": "disk", "operator": "Exists"}),
        1 => json!({"key": RACK, "operator": "DoesNotExist"}),
        2 => json!({"key": "generation", "operator": "Gt", "values": [draw.between(1, 6).to_string()]}),
        3 => json!({"key": "generation", "operator": "Lt", "values": [draw.between(4, 9).to_string()]}),
        // No number: nothing is greater.
        4 => json!({"key": "disk", "operator": "Gt", "values": ["1"]}),
        5 => json!({"key": "disk", "operator": "NotIn", "values": [draw.pick(&DISKS)]}),
        6 => json!({"key": RACK, "operator": "In", "values": draw.some(&RACKS, 2)}),
        _ => json!({"key": ZONE, "operator": "In", "values": draw.some(&ZONES, 2)}),
    }
}

/// A node selector that a volume has: some nodes, or a zone.
pub(super) fn of_volume(draw: &mut Draw, nodes: usize) -> Value {
    let expression = if draw.chance(50) {
        let count = draw.between(1, 4);
        let names: Vec<String> = draw.some(&(0..nodes).collect::<Vec<_>>(), count).into_iter().map(node_name).collect();
        json!({"key": HOSTNAME, "operator": "In", "values": names})
    } else {
        json!({"key": ZONE, "operator": "In", "values": [draw.pick(&ZONES)]})
    };
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
}
