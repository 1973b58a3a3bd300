//! Pods, by the features that they use.

use serde_json::{Value, json};

use super::vocabulary::{CLASSES, CRITICAL, HOSTNAME, NAMESPACES, node_name};
use super::volumes::Volumes;
use super::{affinity, neighbours, nodes, resources, spread};
use crate::differential::feature::{Feature, Features};
use crate::draw::Draw;

/// A pod to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// The object, without a node.
    pub pod: Value,
    /// What it uses, with what its cluster has.
    pub features: Features,
}

impl Wish {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> String {
        key(&self.pod)
    }
}

/// `NAMESPACE/NAME` of an object.
#[must_use]
pub fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// What pods of a cluster are drawn from.
pub(super) struct Pods<'a> {
    /// What the cluster has.
    pub features: &'a Features,
    /// Nodes are named by their number below this.
    pub nodes: usize,
    /// Claims so far.
    pub volumes: Volumes,
}

impl Pods<'_> {
    /// A pod that uses up to three features, and waits for claims only if `late`.
    pub(super) fn wish(&mut self, draw: &mut Draw, name: &str, late: bool) -> Wish {
        let choice: Vec<Feature> =
            self.features.iter().copied().filter(|f| is_choice(*f) && *f != Feature::LateBinding).collect();
        let count = draw.below(4);
        let mut features: Features = draw.some(&choice, count).into_iter().collect();
        if late {
            features.insert(Feature::LateBinding);
        }
        let mut pod = self.base(draw, name);
        for feature in &features {
            self.apply(draw, &mut pod, *feature);
        }
        if self.features.contains(&Feature::SpreadPolicies) && !pod["spec"]["topologySpreadConstraints"].is_null() {
            features.insert(Feature::SpreadPolicies);
        }
        without_nulls(&mut pod);
        features.extend(self.features.iter().copied().filter(|f| f.is_of_cluster() || *f == Feature::Resources));
        Wish { pod, features }
    }

    /// A pod that may preempt, and asks for much.
    pub(super) fn preemptor(&mut self, draw: &mut Draw, name: &str) -> Wish {
        let mut wish = self.wish(draw, name, false);
        let spec = &mut wish.pod["spec"];
        spec["priorityClassName"] = json!(CRITICAL);
        if spec["resources"].is_null() {
            let requests = &mut spec["containers"][0]["resources"]["requests"];
            requests["cpu"] = json!(draw.pick(&["700m", "1", "2", "3"]));
            requests["memory"] = json!(draw.pick(&["512Mi", "1Gi", "2Gi"]));
        }
        wish.features.insert(Feature::Preemption);
        if self.features.contains(&Feature::DisruptionBudgets) {
            wish.features.insert(Feature::DisruptionBudgets);
        }
        wish
    }

    /// Pods of different priorities that want the same node, in no order.
    pub(super) fn rivals(&mut self, draw: &mut Draw) -> Vec<Wish> {
        let node = node_name(draw.below(self.nodes));
        let mut classes = CLASSES;
        for last in (1..classes.len()).rev() {
            classes.swap(last, draw.below(last + 1));
        }
        let mut rivals = Vec::new();
        for (number, class) in classes.into_iter().enumerate() {
            let mut pod = self.base(draw, &format!("rival-{number}"));
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "600m"}});
            pod["spec"]["nodeSelector"] = json!({HOSTNAME: node});
            pod["spec"]["priorityClassName"] = json!(class);
            let mut features: Features = [Feature::PriorityOrder].into();
            features.extend(self.features.iter().copied().filter(|f| f.is_of_cluster()));
            rivals.push(Wish { pod, features });
        }
        rivals
    }

    fn base(&self, draw: &mut Draw, name: &str) -> Value {
        let several = self.features.contains(&Feature::Namespaces);
        let namespace = if several { draw.pick(&NAMESPACES) } else { NAMESPACES[0] };
        let mut container = json!({"name": "main", "image": "example.com/main:1"});
        if self.features.contains(&Feature::Resources) && draw.chance(85) {
            container["resources"] = resources::requests(draw);
        }
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": neighbours::labels(draw)},
            "spec": {"containers": [container]},
        });
        if self.features.contains(&Feature::Resources) && draw.chance(15) {
            resources::second_container(draw, &mut pod);
        }
        if self.features.contains(&Feature::Preemption) {
            // Those who can be preempted differ in what they are worth.
            pod["spec"]["priorityClassName"] = json!(draw.pick(&CLASSES));
        }
        pod
    }

    fn apply(&mut self, draw: &mut Draw, pod: &mut Value, feature: Feature) {
        use Feature as F;
        match feature {
            F::ExtendedResources => resources::extended(draw, pod),
            F::InitContainers => resources::init_containers(draw, pod),
            F::Sidecars => resources::sidecars(draw, pod),
            F::PodLevelResources => resources::pod_level(draw, pod),
            F::Overhead => resources::overhead(draw, pod),
            F::HostPorts => resources::host_ports(draw, pod),
            F::Images => resources::images(draw, pod),
            F::Taints => nodes::tolerate_taints(draw, pod),
            F::SoftTaints => nodes::tolerate_soft_taints(draw, pod),
            F::Cordons => nodes::tolerate_cordon(pod),
            F::NodeSelector => affinity::node_selector(draw, pod),
            F::NodeAffinity => affinity::node_affinity(draw, pod),
            F::NodeNames => affinity::node_names(draw, pod, self.nodes),
            F::PreferredNodeAffinity => affinity::preferred(draw, pod),
            F::Priorities => pod["spec"]["priorityClassName"] = json!(draw.pick(&CLASSES)),
            F::PodAffinity | F::PodAntiAffinity | F::PreferredPodAffinity | F::PreferredPodAntiAffinity => {
                neighbours::neighbours(draw, pod, feature, self.features);
            }
            F::HardSpread => spread::spread(draw, pod, true, self.features),
            F::SoftSpread => spread::spread(draw, pod, false, self.features),
            F::BoundVolumes
            | F::VolumeZones
            | F::VolumeLimits
            | F::ReadWriteOncePod
            | F::BrokenClaims
            | F::LateBinding => self.volumes.claim(draw, pod, feature, self.nodes),
            // Of the cluster, or of pods of their own.
            F::Resources
            | F::PodLimit
            | F::ResizedPods
            | F::TerminatingPods
            | F::PriorityOrder
            | F::Namespaces
            | F::SpreadPolicies
            | F::DefaultSpread
            | F::Preemption
            | F::DisruptionBudgets => {}
        }
    }
}

/// Whether a pod can have it or not.
fn is_choice(feature: Feature) -> bool {
    use Feature as F;
    !matches!(
        feature,
        F::Resources
            | F::PodLimit
            | F::ResizedPods
            | F::TerminatingPods
            | F::PriorityOrder
            | F::Namespaces
            | F::SpreadPolicies
            | F::DefaultSpread
            | F::Preemption
            | F::DisruptionBudgets
    )
}

/// Takes out what was looked at and never set.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
