//! Label selectors of all kinds of objects.

use gpu_scheduler_engine::model::{LabelSelector, Operator, Requirement};

use crate::objects;
use crate::problem::Finding;

/// A selector as the engine wants it. A requirement that is not understood makes it match nothing: leaving it out would
/// select pods that its author excluded.
pub(crate) fn label_selector(
    selector: &objects::LabelSelector,
    field: &str,
    findings: &mut Vec<Finding>,
) -> LabelSelector {
    let mut read = LabelSelector::of_labels(&selector.match_labels);
    for (index, expression) in selector.match_expressions.iter().enumerate() {
        let operator = match expression.operator.as_str() {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            unknown => {
                findings.push(Finding::new(
                    format!("{field}.matchExpressions[{index}].operator"),
                    format!("{unknown:?} is not an operator, and the selector matches nothing"),
                    "write In, NotIn, Exists or DoesNotExist",
                ));
                None
            }
        };
        // "In nothing" is malformed to the engine, and matches nothing.
        let values = if operator.is_some() { expression.values.clone() } else { Vec::new() };
        let operator = operator.unwrap_or(Operator::In);
        read.requirements.push(Requirement { key: expression.key.clone(), operator, values });
    }
    read
}

/// As [`label_selector`], of a selector that may be missing.
pub(crate) fn optional_selector(
    selector: Option<&objects::LabelSelector>,
    field: &str,
    findings: &mut Vec<Finding>,
) -> Option<LabelSelector> {
    selector.map(|s| label_selector(s, field, findings))
}
