//! What is held and fragmented over all nodes.

use gpu_scheduler_engine::ledger::Headroom;
use gpu_scheduler_engine::plugins::fragment;
use gpu_scheduler_engine::state::State;

/// Sums over all nodes, kept up by looking at the nodes that changed.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    seen: u64,
    by_node: Vec<(u64, i128)>,
    held: u64,
    fragment: i128,
}

impl Gauge {
    /// Looks at what changed. The mix of pods must have been declared, and stay.
    pub fn update(&mut self, state: &State) {
        self.by_node.resize(state.node_slots(), (0, 0));
        for (_, id) in state.changed_since(self.seen) {
            let (held, lost) = state.node(id).map_or((0, 0), |node| {
                let headroom: &Headroom = node.headroom();
                (u64::from(node.ledger().held().0), fragment(state.mix(), state.models(), headroom))
            });
            let known = &mut self.by_node[id.index()];
            self.held = self.held + held - known.0;
            self.fragment += lost - known.1;
            *known = (held, lost);
        }
        self.seen = state.generation();
    }

    /// Taken from the cluster, in thousandths of a card.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Idle, but useless to the mix, in thousandths of a card.
    pub fn fragment(&self, state: &State) -> u64 {
        u64::try_from(self.fragment / i128::from(state.mix().weight().max(1))).unwrap_or(0)
    }
}
