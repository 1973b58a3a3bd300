//! Why, as JSON for people and tools.

use gpu_scheduler_engine::{Explanation, NodeVerdict, Place, PodPhase};
use serde_json::{Value, json};

use super::Driver;
use crate::allocation;

impl Driver {
    /// Everything about a pod, worked out afresh; `None` where it is not known. `O(pods + nodes)`.
    pub fn explain(&self, namespace: &str, name: &str) -> Option<Value> {
        let state = self.engine().state();
        let uid = state.pods().find(|p| *p.name.namespace == *namespace && *p.name.name == *name)?.uid.clone();
        let explanation = self.engine().explain(&uid)?;
        let gates = state.pod_of(&uid).map(|p| p.gates.to_vec()).unwrap_or_default();
        Some(render(&explanation, &uid.to_string(), &gates, |rejection| {
            rejection.reasons.iter().map(|r| r.text(state.symbols()).into_owned()).collect()
        }))
    }
}

fn render(
    explanation: &Explanation,
    uid: &str,
    gates: &[String],
    reasons: impl Fn(&gpu_scheduler_engine::framework::Rejection) -> Vec<String>,
) -> Value {
    let phase = match &explanation.phase {
        PodPhase::Placed { bound: true, .. } => "Bound",
        PodPhase::Placed { bound: false, .. } => "Binding",
        PodPhase::Waiting(Place::Active) => "Active",
        PodPhase::Waiting(Place::Backoff(_)) => "Backoff",
        PodPhase::Waiting(Place::Unschedulable(_)) => "Unschedulable",
        PodPhase::Waiting(Place::Gated) => "Gated",
        PodPhase::Waiting(Place::InFlight) => "Binding",
        PodPhase::Terminating => "Terminating",
    };
    let mut value = json!({
        "namespace": &*explanation.pod.namespace,
        "name": &*explanation.pod.name,
        "uid": uid,
        "phase": phase,
        "message": explanation.message.as_deref(),
        "attempts": explanation.attempts,
        "best": explanation.best.as_deref(),
    });
    if !gates.is_empty() {
        value["gates"] = json!(gates);
    }
    if let PodPhase::Placed { node, allocation, guessed, .. } = &explanation.phase {
        value["node"] = json!(&**node);
        value["assumedDevices"] = json!(guessed);
        value["allocation"] = serde_json::from_str(&allocation::serialise(allocation)).unwrap_or(Value::Null);
    }
    let nodes = explanation.nodes.iter().map(|n| match &n.verdict {
        NodeVerdict::Candidate { cost, terms, .. } => json!({
            "node": &*n.node,
            "fits": true,
            "cost": cost.0,
            "terms": terms.iter().map(|t| json!({
                "plugin": t.plugin.to_string(), "score": t.score, "groupCost": t.group_cost, "weight": t.weight,
            })).collect::<Vec<_>>(),
        }),
        NodeVerdict::Rejected(rejection) => json!({
            "node": &*n.node,
            "fits": false,
            "plugin": rejection.plugin.to_string(),
            "reasons": reasons(rejection),
        }),
    });
    value["nodes"] = nodes.collect();
    value
}
