//! What is around nodes and pods: namespaces, services, controllers, disruption budgets, images.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{
    CompiledLabels, DisruptionBudget, LabelSelector, NodeId, PodId, Symbol, Workload, WorkloadKind, WorkloadName,
};
use crate::state::kin::Kin;
use crate::state::{Change, Disturbance, NodeFacts, State};

/// Labels by key, sorted.
type Labels = Box<[(Symbol, Symbol)]>;

#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Neighbours {
    namespaces: BTreeMap<Symbol, Labels>,
    /// By kind, namespace and name.
    #[serde(with = "crate::collections::pairs")]
    workloads: BTreeMap<(WorkloadKind, Symbol, Symbol), CompiledLabels>,
    /// By namespace and name.
    #[serde(with = "crate::collections::pairs")]
    budgets: BTreeMap<(Arc<str>, Arc<str>), Arc<DisruptionBudget>>,
    /// On how many nodes an image is.
    images: BTreeMap<Symbol, u32>,
    /// Pods that room is made for, by the node where.
    nominated: BTreeMap<NodeId, BTreeSet<PodId>>,
    node_of: BTreeMap<PodId, NodeId>,
}

impl State {
    /// The labels of a namespace, sorted; none where it is not known.
    pub fn namespace_labels(&self, namespace: Symbol) -> &[(Symbol, Symbol)] {
        self.neighbours.namespaces.get(&namespace).map_or(&[], |labels| labels)
    }

    pub(crate) fn apply_namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) {
        let name = self.symbols.intern(name);
        let before = match labels {
            Some(labels) => {
                let mut labels: Vec<_> =
                    labels.iter().map(|(k, v)| (self.symbols.intern(k), self.symbols.intern(v))).collect();
                labels.sort_unstable();
                self.neighbours.namespaces.insert(name, labels.into())
            }
            None => self.neighbours.namespaces.remove(&name),
        };
        if before.as_deref() != self.neighbours.namespaces.get(&name).map(|l| &**l) {
            self.disturb();
        }
    }

    pub(crate) fn apply_workload(&mut self, workload: &Workload) {
        let key = self.workload_key(&workload.name);
        let empty = |s: &LabelSelector| s.requirements.is_empty();
        // A service without a selector selects nothing, another one without requirements everything.
        let none = workload.selector.as_ref().is_none_or(|s| key.0 == WorkloadKind::Service && empty(s));
        if none {
            self.neighbours.workloads.remove(&key);
            return;
        }
        let selector = CompiledLabels::new(workload.selector.as_ref(), &mut self.symbols);
        self.reclassify |= self.kins.mention([&selector]);
        self.neighbours.workloads.insert(key, selector);
    }

    pub(crate) fn delete_workload(&mut self, name: &WorkloadName) {
        let key = self.workload_key(name);
        self.neighbours.workloads.remove(&key);
    }

    fn workload_key(&mut self, name: &WorkloadName) -> (WorkloadKind, Symbol, Symbol) {
        (name.kind, self.symbols.intern(&name.namespace), self.symbols.intern(&name.name))
    }

    /// What the system spreads a pod with: all that services which select it, and its controller, select by; `None`
    /// where there is neither.
    pub(crate) fn default_selector(
        &self,
        kin: &Kin,
        controller: Option<(WorkloadKind, Symbol)>,
    ) -> Option<CompiledLabels> {
        let workloads = &self.neighbours.workloads;
        let first = (WorkloadKind::Service, kin.namespace, Symbol::FIRST);
        let services = workloads
            .range(first..)
            .take_while(|((kind, namespace, _), _)| (*kind, *namespace) == (WorkloadKind::Service, kin.namespace))
            .map(|(_, selector)| selector)
            .filter(|s| s.matches(&self.symbols, |key| kin.label(key)));
        let owner = controller.and_then(|(kind, name)| workloads.get(&(kind, kin.namespace, name)));
        services.chain(owner).cloned().reduce(CompiledLabels::and)
    }

    pub(crate) fn apply_budget(&mut self, budget: DisruptionBudget) {
        let key = (budget.namespace.clone(), budget.name.clone());
        self.neighbours.budgets.insert(key, Arc::new(budget));
    }

    pub(crate) fn delete_budget(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        self.neighbours.budgets.remove(&(namespace.clone(), name.clone()));
    }

    /// All disruption budgets, by namespace and name.
    pub fn budgets(&self) -> impl Iterator<Item = &Arc<DisruptionBudget>> {
        self.neighbours.budgets.values()
    }

    /// On how many nodes an image is.
    pub fn image_nodes(&self, image: Symbol) -> u32 {
        self.neighbours.images.get(&image).copied().unwrap_or(0)
    }

    /// Counts a node's images by what it says now.
    pub(super) fn count_images(&mut self, id: NodeId, now: Option<&NodeFacts>) {
        let before = self.nodes.get(id.index()).and_then(|n| n.facts()).map_or(&[][..], NodeFacts::images);
        let now = now.map_or(&[][..], NodeFacts::images);
        if before == now {
            return;
        }
        let images = &mut self.neighbours.images;
        for (image, _) in now {
            *images.entry(*image).or_default() += 1;
        }
        for (image, _) in before {
            if let Some(nodes) = images.get_mut(image) {
                *nodes -= 1;
                if *nodes == 0 {
                    images.remove(image);
                }
            }
        }
    }

    /// Domains are others.
    pub(super) fn disturb(&mut self) {
        if self.kins.matter() {
            self.disturbances.push(Disturbance::Domains);
        }
    }

    /// What happened since the last call.
    pub(crate) fn take_disturbances(&mut self) -> Vec<Disturbance> {
        std::mem::take(&mut self.disturbances)
    }

    /// The node where room is made for a pod.
    pub fn nominated_node(&self, pod: PodId) -> Option<NodeId> {
        self.neighbours.node_of.get(&pod).copied()
    }

    /// Pods that room is made for on a node, by slot.
    pub fn nominated_on(&self, node: NodeId) -> impl Iterator<Item = PodId> + '_ {
        self.neighbours.nominated.get(&node).into_iter().flatten().copied()
    }

    /// Nodes where room is made for pods, by slot.
    pub fn nominations(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.neighbours.nominated.keys().copied()
    }

    /// Room is made for a pod on a node, or nowhere any more. Others may have what it gives up.
    pub(crate) fn nominate(&mut self, pod: PodId, node: Option<NodeId>) {
        let before = match node {
            Some(node) => self.neighbours.node_of.insert(pod, node),
            None => self.neighbours.node_of.remove(&pod),
        };
        if let Some(node) = node {
            self.neighbours.nominated.entry(node).or_default().insert(pod);
        }
        let Some(before) = before.filter(|before| Some(*before) != node) else { return };
        if let Some(pods) = self.neighbours.nominated.get_mut(&before) {
            pods.remove(&pod);
            if pods.is_empty() {
                self.neighbours.nominated.remove(&before);
            }
        }
        // A pod that took what was kept for it leaves nothing to others.
        let took = self.pods.get(pod.index()).and_then(|p| p.placed.as_ref()).is_some_and(|p| p.node == before);
        if !took && self.nodes.get(before.index()).is_some() {
            self.change_node(before, Change::Relaxes, |_| ());
            self.bury(before);
        }
    }
}
