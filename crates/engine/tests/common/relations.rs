//! What pods of the world want of each other, and what is around them.

use std::sync::Arc;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{
    DisruptionBudget, LabelSelector, Node, Operator, Pod, PodAffinityTerm, PodGroup, PodGroupName, Requirement,
    TopologySpreadConstraint, WeightedPodAffinityTerm, WhenUnsatisfiable, Workload, WorkloadKind, WorkloadName,
};

use super::op::NodeChange;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn app(app: &str) -> LabelSelector {
    LabelSelector::of_labels([(&"app".to_owned(), &app.to_owned())])
}

fn term(selector: LabelSelector, key: &str, everywhere: bool) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(selector),
        topology_key: key.into(),
        namespace_selector: everywhere.then(LabelSelector::default),
        namespaces: Vec::new(),
    }
}

/// Labels most pods, and lets some of them want something of others.
pub fn relate(pod: &mut Pod, size: u8) {
    pod.labels.insert("app".into(), (size % 3).to_string());
    pod.labels.insert("unique".into(), pod.name.to_string());
    if size >= 96 {
        return;
    }
    let own = app(&(size % 3).to_string());
    let key = if size.is_multiple_of(2) { ZONE } else { HOST };
    let spread = |when| TopologySpreadConstraint {
        topology_key: key.into(),
        selector: Some(own.clone()),
        when_unsatisfiable: when,
        min_domains: 1 + i32::from(size % 3),
        ..TopologySpreadConstraint::default()
    };
    match (size / 3) % 8 {
        0 => pod.pod_anti_affinity.required.push(term(own, key, false)),
        1 => pod.pod_affinity.required.push(term(own, key, true)),
        2 => pod.pod_affinity.required.push(term(app("1"), key, false)),
        3 => pod.spread.push(spread(WhenUnsatisfiable::DoNotSchedule)),
        4 => pod.spread.push(spread(WhenUnsatisfiable::ScheduleAnyway)),
        5 => {
            let preferred = |weight, term| WeightedPodAffinityTerm { weight, term };
            pod.pod_affinity.preferred.push(preferred(10, term(app("0"), key, false)));
            pod.pod_anti_affinity.preferred.push(preferred(90, term(own, HOST, false)));
        }
        6 => {
            let name: Arc<str> = format!("g{}", size % 2).into();
            pod.group = Some(PodGroupName { namespace: pod.namespace.clone(), name });
        }
        _ => {
            let requirement = Requirement { key: "touched".into(), operator: Operator::Exists, values: Vec::new() };
            let touched = LabelSelector { requirements: vec![requirement] };
            pod.pod_anti_affinity.required.push(term(touched, key, false));
        }
    }
}

/// Two zones and one node without.
pub fn label(node: &mut Node, n: u8, change: NodeChange) {
    node.labels.insert(HOST.into(), node.name.clone());
    if n < 3 && !matches!(change, NodeChange::OtherModel) {
        node.labels.insert(ZONE.into(), (n % 2).to_string());
    } else {
        node.labels.remove(ZONE);
    }
}

/// Changes of what is around.
pub fn around(which: u8) -> Vec<Event> {
    let namespace: Arc<str> = "default".into();
    let name: Arc<str> = "x".into();
    let group = |n: u8| PodGroupName { namespace: "default".into(), name: format!("g{n}").into() };
    vec![match which % 10 {
        0 => Event::NamespaceApplied { name: namespace, labels: [("team".to_owned(), which.to_string())].into() },
        1 => Event::NamespaceDeleted { name: namespace },
        2 | 3 => Event::WorkloadApplied(Box::new(Workload {
            name: WorkloadName { kind: WorkloadKind::Service, namespace, name },
            selector: Some(app(&(which % 3).to_string())),
        })),
        4 => Event::WorkloadDeleted(WorkloadName { kind: WorkloadKind::Service, namespace, name }),
        5 => Event::DisruptionBudgetApplied(Box::new(DisruptionBudget {
            namespace,
            name,
            selector: Some(app(&(which % 3).to_string())),
            disruptions_allowed: i32::from(which % 2),
            disrupted: [].into(),
        })),
        6 => Event::DisruptionBudgetDeleted { namespace, name },
        9 => Event::PodGroupDeleted(group(which / 10 % 2)),
        _ => Event::PodGroupApplied(Box::new(PodGroup {
            name: group(which / 10 % 2),
            min_count: (!which.is_multiple_of(3)).then_some(u32::from(which % 3)),
            disrupted_as_one: which % 4 > 1,
            priority: 0,
        })),
    }]
}
