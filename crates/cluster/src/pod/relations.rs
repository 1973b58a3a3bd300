//! What a pod wants of other pods.

use gpu_scheduler_engine::model::{
    NodeInclusionPolicy, PodAffinity, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
    WhenUnsatisfiable,
};

use crate::objects;
use crate::problem::Finding;
use crate::selector::optional_selector;

/// `podAffinity` or `podAntiAffinity`, found at `field`.
pub(super) fn pod_affinity(affinity: &objects::PodAffinity, field: &str, findings: &mut Vec<Finding>) -> PodAffinity {
    let required = affinity.required_during_scheduling_ignored_during_execution.iter().enumerate();
    let required = required
        .map(|(i, t)| term(t, &format!("{field}.requiredDuringSchedulingIgnoredDuringExecution[{i}]"), findings))
        .collect();
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().enumerate();
    let preferred = preferred
        .map(|(i, weighted)| {
            let field = format!("{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}].podAffinityTerm");
            WeightedPodAffinityTerm {
                weight: weighted.weight,
                term: term(&weighted.pod_affinity_term, &field, findings),
            }
        })
        .collect();
    PodAffinity { required, preferred }
}

fn term(term: &objects::PodAffinityTerm, field: &str, findings: &mut Vec<Finding>) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: optional_selector(term.label_selector.as_ref(), &format!("{field}.labelSelector"), findings),
        namespaces: term.namespaces.clone(),
        namespace_selector: optional_selector(
            term.namespace_selector.as_ref(),
            &format!("{field}.namespaceSelector"),
            findings,
        ),
        topology_key: term.topology_key.clone(),
    }
}

/// `topologySpreadConstraints`. What is not understood is taken at its strictest.
pub(super) fn spread(
    constraints: &[objects::TopologySpreadConstraint],
    findings: &mut Vec<Finding>,
) -> Vec<TopologySpreadConstraint> {
    let read = |(index, constraint): (usize, &objects::TopologySpreadConstraint)| {
        let field = format!("spec.topologySpreadConstraints[{index}]");
        let when_unsatisfiable = match constraint.when_unsatisfiable.as_str() {
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            "DoNotSchedule" | "" => WhenUnsatisfiable::DoNotSchedule,
            unknown => {
                findings.push(Finding::new(
                    format!("{field}.whenUnsatisfiable"),
                    format!("{unknown:?} is not understood, and the constraint must hold"),
                    "write DoNotSchedule or ScheduleAnyway",
                ));
                WhenUnsatisfiable::DoNotSchedule
            }
        };
        let mut policy = |text: Option<&String>, name: &str, default| match text.map(String::as_str) {
            None | Some("") => default,
            Some("Honor") => NodeInclusionPolicy::Honor,
            Some("Ignore") => NodeInclusionPolicy::Ignore,
            Some(unknown) => {
                findings.push(Finding::new(
                    format!("{field}.{name}"),
                    format!("{unknown:?} is not understood, and counts as not written"),
                    "write Honor or Ignore",
                ));
                default
            }
        };
        let node_affinity_policy =
            policy(constraint.node_affinity_policy.as_ref(), "nodeAffinityPolicy", NodeInclusionPolicy::Honor);
        let node_taints_policy =
            policy(constraint.node_taints_policy.as_ref(), "nodeTaintsPolicy", NodeInclusionPolicy::Ignore);
        TopologySpreadConstraint {
            max_skew: constraint.max_skew.max(1),
            topology_key: constraint.topology_key.clone(),
            when_unsatisfiable,
            selector: optional_selector(
                constraint.label_selector.as_ref(),
                &format!("{field}.labelSelector"),
                findings,
            ),
            min_domains: constraint.min_domains.unwrap_or(1),
            node_affinity_policy,
            node_taints_policy,
            match_label_keys: constraint.match_label_keys.clone(),
        }
    };
    constraints.iter().enumerate().map(read).collect()
}
