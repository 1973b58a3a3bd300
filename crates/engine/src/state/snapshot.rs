//! Look-ups by hash are not written down with the state: they follow from its tables and are made again.

use crate::model::Mib;
use crate::state::State;

impl State {
    /// Makes the look-ups of a state that was read back. Until then it finds nothing by name.
    /// `O(nodes + pods + classes + groups + shapes)`.
    pub(crate) fn make_index(&mut self) {
        self.node_by_name = self.nodes.iter().map(|node| (node.name().clone(), node.id())).collect();
        self.pod_by_uid = self.pods.iter().map(|pod| (pod.uid.clone(), pod.id)).collect();
        self.classes.make_index();
        self.kins.make_index();
        self.mix.make_index();
        self.groups.make_index();
        let (classes, pods) = (&self.classes, &self.pods);
        let users = pods.iter().map(|p| (p.id, classes.get(p.class).spec.volumes.as_deref(), p.plan.is_some()));
        self.volumes.make_index(users);
    }

    /// What the configuration says of a state besides its profiles.
    pub(crate) fn settings(&self) -> (Mib, bool) {
        (self.foreign_tolerance, self.prices.enabled())
    }
}
