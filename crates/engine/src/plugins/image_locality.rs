//! Nodes that have a pod's images already start it sooner.

use crate::framework::{CyclePlugin, CycleState, PluginName};
use crate::model::{NodeId, Symbol};
use crate::plugins::go_float;
use crate::state::{Class, NodeState, State};

/// Less than this makes no difference.
const MIN_SIZE: i64 = 23 << 20;
/// More than this, for each container, makes none either.
const MAX_SIZE: i64 = 1000 << 20;

/// `ImageLocality`: the sum of the sizes of images that are there, each weighed by the part of all nodes that has it, so
/// that pods do not heap up where an image was pulled first.
#[derive(Debug, Clone, Copy)]
pub struct ImageLocality;

impl CyclePlugin for ImageLocality {
    fn name(&self) -> PluginName {
        "ImageLocality"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        let images = &class.spec.images;
        let known = || images.iter().map(|image| (*image, state.image_nodes(*image))).filter(|(_, nodes)| *nodes > 0);
        known().next()?;
        let nodes = i64::try_from(state.live_nodes().count()).unwrap_or(i64::MAX);
        let containers = i64::try_from(images.len()).unwrap_or(i64::MAX);
        Some(Box::new(Spread { images: known().collect(), nodes, containers }))
    }
}

struct Spread {
    /// Images that are somewhere, and on how many nodes.
    images: Vec<(Symbol, u32)>,
    nodes: i64,
    containers: i64,
}

impl CycleState for Spread {
    fn score(&self, feasible: &[(NodeId, &NodeState)]) -> Option<Vec<i64>> {
        Some(feasible.iter().map(|(_, node)| self.points(node)).collect())
    }
}

impl Spread {
    fn points(&self, node: &NodeState) -> i64 {
        let Some(facts) = node.facts() else { return 0 };
        let sizes = self
            .images
            .iter()
            .filter_map(|(image, nodes)| Some(go_float::scaled(facts.image(*image)?, i64::from(*nodes), self.nodes)));
        let most = MAX_SIZE.saturating_mul(self.containers);
        let sum = sizes.fold(0_i64, i64::saturating_add).clamp(MIN_SIZE, most);
        100 * (sum - MIN_SIZE) / (most - MIN_SIZE)
    }
}
