//! Clusters and pods from a seed. What comes of one seed depends on the seed and the features alone, never on what
//! a scheduler decides.

mod affinity;
mod fixtures;
mod neighbours;
mod nodes;
mod pods;
mod resources;
mod spread;
mod vocabulary;
mod volumes;

use serde_json::{Value, json};

use self::pods::Pods;
use self::vocabulary::{APPS, node_name};
use self::volumes::Volumes;
use super::feature::{Feature, Features};
use crate::draw::Draw;

pub use fixtures::fixtures;
pub use pods::{Wish, key};
pub(crate) use vocabulary::{DRIVER, HOSTNAME, NAMESPACES};

/// Features that are too few to be left out by chance.
const FEW: usize = 6;
/// Ordinary steps of a case.
const STEPS: usize = 28;

/// A cluster, and what happens on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What it was drawn from.
    pub seed: u64,
    /// What this cluster has: some of those that were switched on.
    pub features: Features,
    /// Nodes, volumes, services: what is there before any pod, each with the status that it has.
    pub objects: Vec<Value>,
    /// Pods that are on their nodes already.
    pub placed: Vec<Placed>,
    /// Pods that are all there before the schedulers start.
    pub rivals: Vec<Wish>,
    /// What happens, one after the other.
    pub steps: Vec<Step>,
}

/// A pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The object, with its node.
    pub pod: Value,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A pod comes.
    Place(Wish),
    /// A pod comes whose claims are bound when it is placed. Comes after all ordinary steps.
    PlaceLate(Wish),
    /// A pod comes that may preempt others. Comes last.
    Preempt(Wish),
    /// The pod of an earlier step goes, if it was placed.
    Remove(usize),
}

impl Step {
    /// The pod that comes.
    #[must_use]
    pub fn wish(&self) -> Option<&Wish> {
        match self {
            Self::Place(wish) | Self::PlaceLate(wish) | Self::Preempt(wish) => Some(wish),
            Self::Remove(_) => None,
        }
    }
}

impl Case {
    /// The case of a seed, of features that are on.
    #[must_use]
    pub fn generate(seed: u64, on: &Features) -> Self {
        let mut draw = Draw::new(seed);
        let features = some_of(&mut draw, on);
        let mut objects = nodes::nodes(&mut draw, &features);
        let nodes = objects.iter().filter(|object| object["kind"] == "Node").count();
        if features.contains(&Feature::DefaultSpread) {
            objects.extend(spread::services(&mut draw));
        }
        if features.contains(&Feature::DisruptionBudgets) {
            objects.extend(budgets(&mut draw));
        }
        let mut pods = Pods { features: &features, nodes, volumes: Volumes::default() };
        let placed = placed(&mut draw, &mut pods);
        pods.volumes.contended = true;
        let rivals = if features.contains(&Feature::PriorityOrder) { pods.rivals(&mut draw) } else { Vec::new() };
        let steps = steps(&mut draw, &mut pods);
        objects.extend(pods.volumes.objects);
        Self { seed, features, objects, placed, rivals, steps }
    }
}

/// About half of the features, so that clusters differ and each shows what it is about.
fn some_of(draw: &mut Draw, on: &Features) -> Features {
    let all: Vec<Feature> = on.iter().copied().collect();
    let mut features: Features =
        all.iter().copied().filter(|f| draw.chance(50) || all.len() <= FEW || *f == Feature::Resources).collect();
    if features.contains(&Feature::Preemption) {
        // A victim that was on its way out before cannot be told from one that had to go.
        features.remove(&Feature::TerminatingPods);
    } else {
        features.remove(&Feature::DisruptionBudgets);
    }
    features
}

fn placed(draw: &mut Draw, pods: &mut Pods<'_>) -> Vec<Placed> {
    let crowded = pods.features.contains(&Feature::Preemption);
    let mut placed = Vec::new();
    for node in 0..pods.nodes {
        let count = if crowded { draw.between(1, 5) } else { draw.below(3) };
        for _ in 0..count {
            let mut pod = pods.wish(draw, &format!("placed-{}", placed.len()), false).pod;
            pod["spec"]["nodeName"] = json!(node_name(node));
            if pods.features.contains(&Feature::ResizedPods) && draw.chance(50) {
                pod["status"] = resources::resized(draw, &pod);
            }
            let terminating = pods.features.contains(&Feature::TerminatingPods) && draw.chance(30);
            placed.push(Placed { pod, terminating });
        }
    }
    placed
}

fn steps(draw: &mut Draw, pods: &mut Pods<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..STEPS {
        if number > 4 && draw.chance(8) {
            steps.push(Step::Remove(draw.below(number)));
        } else {
            steps.push(Step::Place(pods.wish(draw, &format!("pod-{number}"), false)));
        }
    }
    if pods.features.contains(&Feature::LateBinding) {
        steps.extend((0..4).map(|number| Step::PlaceLate(pods.wish(draw, &format!("late-{number}"), true))));
    }
    if pods.features.contains(&Feature::Preemption) {
        steps.extend((0..6).map(|number| Step::Preempt(pods.preemptor(draw, &format!("critical-{number}")))));
    }
    steps
}

fn budgets(draw: &mut Draw) -> Vec<Value> {
    let count = draw.between(1, 2);
    let mut budgets = Vec::new();
    for app in draw.some(&APPS, count) {
        let allowed = draw.below(3);
        budgets.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
            "status": {
                "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1,
                "expectedPods": 1 + allowed,
            },
        }));
    }
    budgets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_the_features_say_everything() {
        let all: Features = Feature::ALL.into();
        assert_eq!(Case::generate(3, &all), Case::generate(3, &all));
        assert_ne!(Case::generate(3, &all), Case::generate(4, &all));
    }

    #[test]
    fn every_feature_is_drawn_and_none_that_is_off() {
        let all: Features = Feature::ALL.into();
        let mut seen = Features::new();
        for seed in 0..60 {
            let case = Case::generate(seed, &all);
            let wishes = case.steps.iter().filter_map(Step::wish).chain(&case.rivals);
            seen.extend(wishes.flat_map(|wish| wish.features.iter().copied()));
        }
        assert_eq!(seen, all);
        for off in Feature::ALL.into_iter().filter(|off| *off != Feature::Resources) {
            let others: Features = all.iter().copied().filter(|f| *f != off).collect();
            let case = Case::generate(5, &others);
            assert!(case.steps.iter().filter_map(Step::wish).all(|wish| !wish.features.contains(&off)), "{off}");
        }
    }

    #[test]
    fn what_binds_late_or_preempts_comes_last() {
        let all: Features = Feature::ALL.into();
        for seed in 0..20 {
            let rank = |step: &Step| match step {
                Step::Place(_) | Step::Remove(_) => 0,
                Step::PlaceLate(_) => 1,
                Step::Preempt(_) => 2,
            };
            assert!(Case::generate(seed, &all).steps.is_sorted_by_key(rank), "{seed}");
        }
    }
}
