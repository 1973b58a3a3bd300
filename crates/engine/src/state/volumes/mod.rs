//! Storage as the engine knows it: claims and volumes, what makes and limits them, and who uses them.
//!
//! What a placement of ours does to volumes is not here but with the pod ([`PodEntry::plan`](crate::state::PodEntry)):
//! it counts until the objects say it themselves, and goes with the placement.

mod assumed;
mod changes;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::collections::pairs;
use crate::model::{
    ClaimName, CompiledLabels, CompiledSelector, CsiDriver, CsiNode, CsiVolume, NodeSelector, PodId, StorageCapacity,
    StorageClass, Symbols, Volume, VolumeAttachment, VolumeClaim, VolumeSource,
};
use crate::state::{NodeFacts, State};

pub use assumed::Assumed;
pub use pod::{PodClaim, PodVolumes};

/// A volume with what it says of nodes compiled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KnownVolume {
    /// What the object says.
    pub facts: Volume,
    affinity: Option<CompiledSelector>,
    /// The affinity in the terms of the CSI driver that does the work of its plugin.
    migrated_affinity: Option<CompiledSelector>,
}

impl KnownVolume {
    fn new(facts: Volume, symbols: &mut Symbols) -> Self {
        let mut compile = |selector: &NodeSelector| CompiledSelector::new([], Some(selector), symbols);
        let affinity = facts.node_affinity.as_ref().map(&mut compile);
        let migrated_affinity = match &facts.source {
            VolumeSource::InTree { node_affinity: Some(selector), .. } => Some(compile(selector)),
            _ => None,
        };
        Self { facts, affinity, migrated_affinity }
    }

    /// Whether a node can reach it. Only labels count, not the node's name, as in kube-scheduler.
    pub fn reaches(&self, state: &State, node: &NodeFacts) -> bool {
        matches(state, self.affinity.as_ref(), node)
    }

    /// As [`KnownVolume::reaches`], on a node with these CSI drivers.
    pub fn reaches_by(&self, state: &State, node: &NodeFacts, csi: Option<&CsiNode>) -> bool {
        match &self.facts.source {
            VolumeSource::InTree { plugin, .. } if csi.is_some_and(|c| c.migrated.contains(plugin)) => {
                matches(state, self.migrated_affinity.as_ref(), node)
            }
            _ => self.reaches(state, node),
        }
    }

    /// What it is to a CSI driver, on a node that has any.
    pub fn csi(&self) -> Option<&CsiVolume> {
        match &self.facts.source {
            VolumeSource::Csi(volume) => Some(volume),
            VolumeSource::InTree { migrated, .. } => migrated.as_ref(),
            VolumeSource::Other => None,
        }
    }
}

fn matches(state: &State, affinity: Option<&CompiledSelector>, node: &NodeFacts) -> bool {
    // No node has the empty name.
    let (_, nobody) = state.cordon_taint();
    affinity.is_none_or(|a| a.matches(state.symbols(), nobody, |key| node.label(key)))
}

/// A storage class with its topologies compiled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KnownClass {
    /// What the object says.
    pub facts: StorageClass,
    topologies: Vec<CompiledLabels>,
}

impl KnownClass {
    fn new(facts: StorageClass, symbols: &mut Symbols) -> Self {
        let compile = |terms: &crate::model::LabelSelector| {
            // A term without requirements matches nothing.
            let terms = Some(terms).filter(|t| !t.requirements.is_empty());
            CompiledLabels::new(terms, symbols)
        };
        let topologies = facts.allowed_topologies.iter().map(compile).collect();
        Self { facts, topologies }
    }

    /// Whether volumes can be made for a node.
    pub fn allows(&self, state: &State, node: &NodeFacts) -> bool {
        let matches = |t: &CompiledLabels| t.matches(state.symbols(), |key| node.label(key));
        self.topologies.is_empty() || self.topologies.iter().any(matches)
    }
}

/// A storage capacity with its topology compiled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KnownCapacity {
    /// What the object says.
    pub facts: StorageCapacity,
    topology: CompiledLabels,
}

impl KnownCapacity {
    fn new(facts: StorageCapacity, symbols: &mut Symbols) -> Self {
        let topology = CompiledLabels::new(facts.topology.as_ref(), symbols);
        Self { facts, topology }
    }

    /// Whether a node has it.
    pub fn is_for(&self, state: &State, node: &NodeFacts) -> bool {
        self.topology.matches(state.symbols(), |key| node.label(key))
    }
}

/// All of it.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub struct Volumes {
    #[serde(with = "pairs")]
    claims: BTreeMap<ClaimName, VolumeClaim>,
    volumes: BTreeMap<Arc<str>, KnownVolume>,
    classes: BTreeMap<Arc<str>, KnownClass>,
    csi_nodes: BTreeMap<Arc<str>, CsiNode>,
    csi_drivers: BTreeMap<Arc<str>, CsiDriver>,
    /// By namespace and name.
    #[serde(with = "pairs")]
    capacities: BTreeMap<(Arc<str>, Arc<str>), KnownCapacity>,
    attachments: BTreeMap<Arc<str>, VolumeAttachment>,
    /// Volumes by storage class.
    #[serde(skip)]
    of_class: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Attachments by node.
    #[serde(skip)]
    on_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Pods that use a claim, wherever they are.
    #[serde(skip)]
    users: BTreeMap<ClaimName, BTreeSet<PodId>>,
    /// Pods with a plan that the objects do not say yet.
    #[serde(skip)]
    planning: BTreeSet<PodId>,
}

impl Volumes {
    /// A claim.
    pub fn claim(&self, name: &ClaimName) -> Option<&VolumeClaim> {
        self.claims.get(name)
    }
    /// A volume.
    pub fn volume(&self, name: &str) -> Option<&KnownVolume> {
        self.volumes.get(name)
    }
    /// The volumes of a storage class, by name.
    pub fn of_class<'a>(&'a self, class: &str) -> impl Iterator<Item = &'a KnownVolume> {
        self.of_class.get(class).into_iter().flatten().filter_map(|name| self.volumes.get(name))
    }
    /// A storage class.
    pub fn class(&self, name: &str) -> Option<&KnownClass> {
        self.classes.get(name)
    }
    /// The CSI drivers on a node.
    pub fn csi_node(&self, node: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(node)
    }
    /// A CSI driver.
    pub fn csi_driver(&self, name: &str) -> Option<&CsiDriver> {
        self.csi_drivers.get(name)
    }
    /// All storage capacities, by namespace and name.
    pub fn capacities(&self) -> impl Iterator<Item = &KnownCapacity> {
        self.capacities.values()
    }
    /// What is attached to a node, by name of the attachment.
    pub fn attached_to<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a VolumeAttachment> {
        self.on_node.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }
    /// Pods that use a claim, wherever they are, by slot.
    pub fn users(&self, claim: &ClaimName) -> impl Iterator<Item = PodId> + '_ {
        self.users.get(claim).into_iter().flatten().copied()
    }

    /// After the tables were read back.
    pub(super) fn make_index<'a>(&mut self, pods: impl Iterator<Item = (PodId, Option<&'a PodVolumes>, bool)>) {
        for volume in self.volumes.values() {
            note(&mut self.of_class, &volume.facts.class, &volume.facts.name);
        }
        for attachment in self.attachments.values() {
            note(&mut self.on_node, &attachment.node, &attachment.name);
        }
        for (pod, volumes, plans) in pods {
            self.count_user(pod, volumes);
            if plans {
                self.planning.insert(pod);
            }
        }
    }

    /// A pod that uses these.
    pub(super) fn count_user(&mut self, pod: PodId, volumes: Option<&PodVolumes>) {
        for claim in volumes.iter().flat_map(|v| &v.claims) {
            self.users.entry(claim.name.clone()).or_default().insert(pod);
        }
    }

    /// A pod that uses these no more.
    pub(super) fn forget_user(&mut self, pod: PodId, volumes: Option<&PodVolumes>) {
        for claim in volumes.iter().flat_map(|v| &v.claims) {
            if let Some(users) = self.users.get_mut(&claim.name) {
                users.remove(&pod);
                if users.is_empty() {
                    self.users.remove(&claim.name);
                }
            }
        }
    }
}

fn note(index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, key: &Arc<str>, name: &Arc<str>) {
    index.entry(key.clone()).or_default().insert(name.clone());
}

fn strike(index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, key: &Arc<str>, name: &Arc<str>) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

impl State {
    /// Storage.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Whether a pod is on a node that can be scheduled to, and uses this claim by name.
    pub fn is_claim_in_use(&self, claim: &ClaimName) -> bool {
        let uses = |id: PodId| {
            let pod = self.pod(id)?;
            let node = self.node(pod.placed.as_ref()?.node)?;
            node.facts()?;
            let volumes = self.class(pod.class).spec.volumes.as_ref()?;
            Some(volumes.claims.iter().any(|c| c.made_for.is_none() && c.name == *claim))
        };
        self.volumes.users(claim).any(|id| uses(id) == Some(true))
    }
}
