//! CPU, memory, storage, pod slots and extended resources.

use smallvec::SmallVec;

use crate::framework::{Filter, PluginName, Reason, ResourceName, Verdict};
use crate::state::{Class, NodeFacts, NodeState, State};

/// `NodeResourcesFit`.
#[derive(Debug, Clone, Copy)]
pub struct NodeResourcesFit;

impl Filter for NodeResourcesFit {
    fn name(&self) -> PluginName {
        "NodeResourcesFit"
    }
    /// Every shortage is a reason; it is permanent if an amount exceeds all that the node ever has.
    fn filter(&self, _state: &State, class: &Class, node: &NodeState, facts: &NodeFacts) -> Verdict {
        let mut reasons: SmallVec<[Reason; 1]> = SmallVec::new();
        let running = i64::try_from(node.pods().len()).unwrap_or(i64::MAX);
        if running >= facts.max_pods() {
            reasons.push(Reason::TooManyPods { running, max: facts.max_pods() });
        }
        let (want, used, all) = (&class.spec.charge.requests, node.requested(), facts.allocatable());
        let mut permanent = false;
        let mut need = |resource, asked: i64, used: i64, allocatable: i64| {
            let free = allocatable.saturating_sub(used);
            if asked > 0 && asked > free {
                permanent |= asked > allocatable;
                reasons.push(Reason::Insufficient { resource, asked, free, allocatable });
            }
        };
        need(ResourceName::Cpu, want.cpu, used.cpu, all.cpu);
        need(ResourceName::Memory, want.memory, used.memory, all.memory);
        need(ResourceName::EphemeralStorage, want.ephemeral, used.ephemeral, all.ephemeral);
        for (name, asked) in want.scalars() {
            need(ResourceName::Scalar(*name), *asked, used.scalar(*name), all.scalar(*name));
        }
        if reasons.is_empty() { Verdict::Pass } else { Verdict::Reject { permanent, reasons } }
    }
}
