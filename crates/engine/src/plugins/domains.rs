//! Domains: nodes that have the same value of a label, numbered so that counts by domain are a list.

use crate::collections::Lookup;
use crate::model::{NodeId, Symbol};
use crate::state::{NodeFacts, State};

/// The domains of one label over all nodes.
#[derive(Debug, Default)]
pub(super) struct Domains {
    numbers: Lookup<Symbol, u32>,
    count: u32,
    /// By node slot.
    of: Vec<Option<u32>>,
}

impl Domains {
    /// The domains of the label `key` over all nodes: `O(nodes)`.
    pub fn new(state: &State, key: Symbol) -> Self {
        let mut domains = Self { of: vec![None; state.node_slots()], ..Self::default() };
        for node in state.live_nodes() {
            domains.of[node.id().index()] = node.facts().and_then(|facts| domains.number(facts, key));
        }
        domains
    }

    fn number(&mut self, facts: &NodeFacts, key: Symbol) -> Option<u32> {
        let value = facts.label(key)?;
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        let number = self.count;
        self.count += 1;
        self.numbers.insert(value, number);
        Some(number)
    }

    /// How many there are: numbers run below this.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The number of a node's domain; `None` where it lacks the label.
    pub fn of(&self, node: NodeId) -> Option<usize> {
        self.of.get(node.index()).copied().flatten().map(|number| number as usize)
    }
}
