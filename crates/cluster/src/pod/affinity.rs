//! Node affinity and tolerations.

use gpu_scheduler_engine::model::{
    Effect, NodeSelector, NodeSelectorTerm, Operator, PreferredTerm, Requirement, Toleration, TolerationOperator,
};

use crate::objects;
use crate::problem::Finding;

/// The required and the preferred part of a pod's node affinity.
pub(super) fn node_affinity(
    affinity: &objects::NodeAffinity,
    findings: &mut Vec<Finding>,
) -> (Option<NodeSelector>, Vec<PreferredTerm>) {
    const FIELD: &str = "spec.affinity.nodeAffinity";
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref().map(|selector| {
        let field = format!("{FIELD}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        node_selector(selector, &field, findings)
    });
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().enumerate();
    let preferred = preferred.filter_map(|(i, preferred)| {
        let field = format!("{FIELD}.preferredDuringSchedulingIgnoredDuringExecution[{i}]");
        if !(1..=100).contains(&preferred.weight) {
            findings.push(Finding::new(
                format!("{field}.weight"),
                format!("{} is out of range, and the preference was left out", preferred.weight),
                "write a weight from 1 to 100",
            ));
            return None;
        }
        let term = term(&preferred.preference, &format!("{field}.preference"), findings);
        Some(PreferredTerm { weight: preferred.weight, term })
    });
    let preferred = preferred.collect();
    (required, preferred)
}

/// Terms of which one must match a node; `field` is their list.
pub(crate) fn node_selector(
    selector: &objects::NodeSelector,
    field: &str,
    findings: &mut Vec<Finding>,
) -> NodeSelector {
    let terms = selector.node_selector_terms.iter().enumerate();
    NodeSelector { terms: terms.map(|(i, t)| term(t, &format!("{field}[{i}]"), findings)).collect() }
}

fn term(term: &objects::NodeSelectorTerm, field: &str, findings: &mut Vec<Finding>) -> NodeSelectorTerm {
    let mut requirements = |list: &[objects::NodeSelectorRequirement], name: &str| {
        list.iter().enumerate().map(|(i, r)| requirement(r, &format!("{field}.{name}[{i}]"), findings)).collect()
    };
    NodeSelectorTerm {
        expressions: requirements(&term.match_expressions, "matchExpressions"),
        fields: requirements(&term.match_fields, "matchFields"),
    }
}

fn requirement(
    requirement: &objects::NodeSelectorRequirement,
    field: &str,
    findings: &mut Vec<Finding>,
) -> Requirement {
    let key = requirement.key.clone();
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        unknown => {
            findings.push(Finding::new(
                format!("{field}.operator"),
                format!("{unknown:?} is not an operator, and its term matches no node"),
                "write In, NotIn, Exists, DoesNotExist, Gt or Lt",
            ));
            // Leaving the requirement out would let the pod onto nodes that its author excluded. "In
            // nothing" is malformed to the engine, and a term with a malformed requirement matches nothing.
            return Requirement { key, operator: Operator::In, values: Vec::new() };
        }
    };
    Requirement { key, operator, values: requirement.values.clone() }
}

/// A pod's tolerations. One that is not understood is left out: the pod then goes to fewer nodes.
pub(super) fn tolerations(list: &[objects::Toleration], findings: &mut Vec<Finding>) -> Vec<Toleration> {
    let mut tolerations = Vec::with_capacity(list.len());
    for (index, toleration) in list.iter().enumerate() {
        let field = format!("spec.tolerations[{index}]");
        let operator = match toleration.operator.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            unknown => {
                findings.push(Finding::new(
                    format!("{field}.operator"),
                    format!("{unknown:?} is not understood, and the toleration was left out"),
                    "write Equal or Exists",
                ));
                continue;
            }
        };
        let effect = match toleration.effect.as_str() {
            "" => None,
            text => match effect(text) {
                Some(effect) => Some(effect),
                None => {
                    let field = format!("{field}.effect");
                    findings.push(unknown_effect(field, text, "toleration"));
                    continue;
                }
            },
        };
        let (key, value) = (toleration.key.clone(), toleration.value.clone());
        tolerations.push(Toleration { key, operator, value, effect });
    }
    tolerations
}

/// The effect of a taint or toleration.
pub(crate) fn effect(text: &str) -> Option<Effect> {
    match text {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

/// Says that a taint or toleration was left out for its effect.
pub(crate) fn unknown_effect(field: String, text: &str, thing: &str) -> Finding {
    Finding::new(
        field,
        format!("{text:?} is not an effect, and the {thing} was left out"),
        "write NoSchedule, PreferNoSchedule or NoExecute",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_read_and_its_faults_are_named() {
        let affinity: objects::NodeAffinity = serde_json::from_str(
            r#"{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
              {"matchExpressions":[{"key":"zone","operator":"In","values":["a"]},{"key":"x","operator":"Like"}]},
              {"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}],"matchExpressions":null}]},
            "preferredDuringSchedulingIgnoredDuringExecution":[
              {"weight":0,"preference":{}},
              {"weight":5,"preference":{"matchExpressions":[{"key":"y","operator":"Exists"}]}}]}"#,
        )
        .expect("an affinity");
        let mut findings = Vec::new();
        let (required, preferred) = node_affinity(&affinity, &mut findings);
        let required = required.expect("a selector");
        assert_eq!(required.terms.len(), 2);
        assert_eq!(required.terms[0].expressions[0].operator, Operator::In);
        assert_eq!(required.terms[0].expressions[1].values, Vec::<String>::new());
        assert_eq!(required.terms[1].fields[0].operator, Operator::NotIn);
        assert_eq!(preferred.len(), 1);
        assert_eq!(preferred[0].weight, 5);
        let fields: Vec<_> = findings.iter().map(|f| f.field.rsplit_once("Execution").expect("long").1).collect();
        assert_eq!(fields, [".nodeSelectorTerms[0].matchExpressions[1].operator", "[0].weight"]);
    }

    #[test]
    fn tolerations_are_read_and_their_faults_are_named() {
        let list: Vec<objects::Toleration> = serde_json::from_str(
            r#"[{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"b","value":"v"},{"operator":"Exists"},
            {"key":"c","operator":"Gt","value":"5"},{"key":"d","operator":"Exists","effect":"Maybe"}]"#,
        )
        .expect("tolerations");
        let mut findings = Vec::new();
        let read = tolerations(&list, &mut findings);
        let read: Vec<_> = read.iter().map(|t| (t.key.as_str(), t.operator, t.value.as_str(), t.effect)).collect();
        use TolerationOperator::{Equal, Exists};
        assert_eq!(
            read,
            [("a", Exists, "", Some(Effect::NoSchedule)), ("b", Equal, "v", None), ("", Exists, "", None)]
        );
        let fields: Vec<_> = findings.iter().map(|f| f.field.as_str()).collect();
        assert_eq!(fields, ["spec.tolerations[3].operator", "spec.tolerations[4].effect"]);
    }
}
