//! The largest node of the cluster in each dimension: policies normalise by it.

use std::collections::BTreeMap;

use crate::model::NodeId;

/// The largest node in each dimension, not necessarily the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Largest {
    /// Milli-cores.
    pub cpu: i64,
    /// Thousandths of a card.
    pub gpu: i64,
}

/// How many nodes have which size.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Sizes {
    of: BTreeMap<NodeId, Largest>,
    cpu: BTreeMap<i64, u32>,
    gpu: BTreeMap<i64, u32>,
}

impl Sizes {
    pub fn largest(&self) -> Largest {
        let last = |sizes: &BTreeMap<i64, u32>| sizes.last_key_value().map_or(0, |(size, _)| *size);
        Largest { cpu: last(&self.cpu), gpu: last(&self.gpu) }
    }

    /// Takes a node's size, `None` for one that is gone; returns whether the largest changed. `O(log nodes)`.
    pub fn set(&mut self, node: NodeId, size: Option<Largest>) -> bool {
        let before = self.largest();
        let old = match size {
            Some(size) => self.of.insert(node, size),
            None => self.of.remove(&node),
        };
        if let Some(old) = old {
            take(&mut self.cpu, old.cpu);
            take(&mut self.gpu, old.gpu);
        }
        if let Some(size) = size {
            *self.cpu.entry(size.cpu).or_default() += 1;
            *self.gpu.entry(size.gpu).or_default() += 1;
        }
        before != self.largest()
    }
}

fn take(sizes: &mut BTreeMap<i64, u32>, size: i64) {
    if let Some(count) = sizes.get_mut(&size) {
        *count -= 1;
        if *count == 0 {
            sizes.remove(&size);
        }
    }
}
