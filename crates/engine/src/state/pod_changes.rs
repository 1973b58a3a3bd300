//! How pods change: their specs, and where they are.

use crate::ledger::{NodeLedger, Placement};
use crate::model::{Allocation, ClassId, ContainerAllocation, DeviceGrant, NodeId, Pod, PodId};
use crate::state::class::ClassSpec;
use crate::state::kin::KinId;
use crate::state::pod::{Placed, PodEntry, Presence, Stage};
use crate::state::{Change, DeclaredPod, Disturbance, Shape, State};

impl State {
    /// A pod appeared or changed: compiles it. Placement is left as it is.
    pub(crate) fn apply_pod(&mut self, pod: &Pod, profile: Option<u8>) -> PodId {
        let spec = ClassSpec::compile(pod, profile, &mut self.symbols, &mut self.models, &mut self.kins);
        if let Some(relations) = spec.relations.clone()
            && self.kins.mention(relations.selectors())
        {
            self.reclassify = true;
        }
        let class = self.classes.acquire(spec, &mut self.kins);
        let spec = &self.classes.get(class).spec;
        match self.pod_by_uid.get(&pod.uid).copied() {
            Some(id) => {
                let known = self.pods.at_mut(id.index());
                let old = known.class;
                if old != class {
                    self.volumes.forget_user(id, self.classes.get(old).spec.volumes.as_deref());
                    self.volumes.count_user(id, spec.volumes.as_deref());
                }
                let counted = known.presence.kin;
                if known.group != pod.group {
                    if let Some(group) = &known.group {
                        self.pod_groups.leave(group, id);
                    }
                    if let Some(group) = &pod.group {
                        self.pod_groups.join(group, id);
                    }
                }
                known.update(pod, class, spec);
                self.swap_kin(id, counted);
                self.recharge(id);
                self.classes.release(old, &mut self.kins);
                if let Some(node) = self.nominated_node(id) {
                    self.change_node(node, Change::Relaxes, |_| ());
                }
                id
            }
            None => {
                let entry = PodEntry::new(pod, class, spec);
                self.kins.retain(entry.presence.kin);
                let id = PodId::from_index(self.pods.insert_with(|at| entry.in_slot(PodId::from_index(at))));
                self.pod_by_uid.insert(pod.uid.clone(), id);
                self.volumes.count_user(id, self.classes.get(class).spec.volumes.as_deref());
                if let Some(group) = &pod.group {
                    self.pod_groups.join(group, id);
                }
                id
            }
        }
    }

    /// Fixes the mix of requests.
    pub(crate) fn declare_mix(&mut self, pods: &[DeclaredPod]) {
        let models = &mut self.models;
        let shape = |p: &DeclaredPod| Shape { cpu: p.cpu, gpu: p.gpu, pattern: models.pattern(&p.models) };
        let shapes: Vec<Shape> = pods.iter().map(shape).collect();
        self.mix.declare(shapes);
    }

    /// A pod's entry counts the kin that its presence names; `before` is the one that it counted so far.
    fn swap_kin(&mut self, id: PodId, before: KinId) {
        let now = self.pods.at(id.index()).presence.kin;
        self.kins.retain(now);
        self.kins.release(before);
    }

    /// Has a placed pod counted by the newest version of it.
    fn recharge(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id.index()) else { return };
        let spec = &self.classes.get(entry.class).spec;
        let fresh = (spec.charge.clone(), Presence::of(spec, entry.class, entry.terminating, entry.priority));
        let (Some(placed), old) = (&entry.placed, (entry.charge.clone(), entry.presence)) else { return };
        if old == fresh {
            return;
        }
        let node = placed.node;
        self.remember_pod(id);
        let entry = self.pods.at_mut(id.index());
        (entry.charge, entry.presence) = fresh.clone();
        self.swap_kin(id, old.1.kin);
        for presence in [old.1, fresh.1] {
            self.note_presence(id, presence);
        }
        self.change_node(node, Change::Relaxes, |n| n.recharge(id, (&old.0, old.1), (&fresh.0, fresh.1)));
    }

    /// After selectors that were never seen: compiles all pods anew as far as these tell them apart; returns those that
    /// are another question now. `O(pods)`.
    pub(crate) fn reclassify(&mut self) -> Vec<PodId> {
        if !std::mem::take(&mut self.reclassify) {
            return Vec::new();
        }
        let ids: Vec<PodId> = self.pods.iter().map(|p| p.id).collect();
        let mut changed = Vec::new();
        for id in ids {
            let entry = self.pods.at(id.index());
            let (old, labels, namespace) = (entry.class, entry.labels.clone(), entry.name.namespace.clone());
            let kin = self.kins.acquire(&namespace, &labels, &mut self.symbols);
            let spec = &self.classes.get(old).spec;
            if spec.kin == kin {
                self.kins.release(kin);
                continue;
            }
            let spec = ClassSpec { kin, ..spec.clone() };
            let class = self.classes.acquire(spec, &mut self.kins);
            let entry = self.pods.at(id.index());
            let spec = &self.classes.get(class).spec;
            let presence = Presence::of(spec, class, entry.terminating, entry.priority);
            let entry = self.pods.at_mut(id.index());
            entry.class = class;
            if entry.placed.is_none() {
                let before = std::mem::replace(&mut entry.presence, presence).kin;
                self.swap_kin(id, before);
            }
            self.recharge(id);
            self.classes.release(old, &mut self.kins);
            changed.push(id);
        }
        changed
    }

    /// Takes note that a pod came to a node or left it, for those whom that concerns.
    fn note_presence(&mut self, id: PodId, presence: Presence) {
        if presence.volumes
            && let Some(volumes) = &self.classes.get(self.pods.at(id.index()).class).spec.volumes
        {
            self.disturbances.push(Disturbance::Shared(volumes.clone()));
        }
        if self.kins.matter() {
            let wants = presence.affine.and_then(|class| self.classes.get(class).spec.relations.clone());
            self.disturbances.push(Disturbance::Pod(self.kins.get(presence.kin).clone(), wants));
        }
    }

    /// Forgets a pod and gives back what it holds.
    pub(crate) fn remove_pod(&mut self, id: PodId) {
        if self.unplace(id).is_some() {
            self.mix.depart();
        }
        self.nominate(id, None);
        if let Some(entry) = self.pods.remove(id.index()) {
            self.pod_by_uid.remove(&entry.uid);
            self.volumes.forget_user(id, self.classes.get(entry.class).spec.volumes.as_deref());
            self.kins.release(entry.presence.kin);
            if let Some(group) = &entry.group {
                self.pod_groups.leave(group, id);
            }
            self.classes.release(entry.class, &mut self.kins);
        }
    }

    /// Classes that lost their last pod since the last call.
    pub(crate) fn take_dead_classes(&mut self) -> Vec<ClassId> {
        self.classes.take_dead()
    }

    /// Places a pod by our own decision.
    ///
    /// # Panics
    /// If the pod is placed already, or the grant would break an invariant of the ledger.
    pub(crate) fn assume(&mut self, id: PodId, node: NodeId, placement: &Placement) {
        self.remember_pod(id);
        let entry = self.pods.at(id.index());
        assert!(entry.placed.is_none(), "pod {} is placed twice", entry.name);
        let class = self.classes.get(entry.class).clone();
        let request = &class.spec.gpu;
        let allocation = record(placement, request, self.nodes.at(node.index()).ledger());
        let (uid, charge, presence) = (entry.uid.clone(), entry.charge.clone(), entry.presence);
        self.note_presence(id, presence);
        let peaks = placement.peaks(request);
        self.change_node(node, Change::Takes, |n| {
            n.add_pod(id, &charge, presence);
            n.ledger_mut().grant(id, &uid, &peaks);
            n.measure_pod(&uid);
        });
        self.pods.at_mut(id.index()).placed =
            Some(Placed { node, allocation, stage: Stage::Assumed, guessed: false, doubted: None });
    }

    /// Puts a pod back where it was before it was removed in the same transaction.
    pub(super) fn replace(&mut self, id: PodId, placed: Placed) {
        self.remember_pod(id);
        let node = placed.node;
        self.remember_node(node);
        let entry = self.pods.at_mut(id.index());
        let (uid, charge, presence) = (entry.uid.clone(), entry.charge.clone(), entry.presence);
        entry.placed = Some(placed);
        self.note_presence(id, presence);
        let mut updated = self.nodes.at(node.index()).clone();
        updated.add_pod(id, &charge, presence);
        self.hold(&mut updated, id);
        updated.measure_pod(&uid);
        self.change_node(node, Change::Takes, |n| *n = updated);
    }

    /// Gives back what a pod holds of GPUs, and leaves it where it is: for what is tried in a transaction.
    pub(super) fn release_devices(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id.index()) else { return };
        let (Some(placed), uid) = (&entry.placed, entry.uid.clone()) else { return };
        self.change_node(placed.node, Change::Relaxes, |n| n.ledger_mut().release(id, &uid));
    }

    /// A pod is about to be deleted to make room for another, or is not after all.
    pub(crate) fn mark_preempted(&mut self, id: PodId, preempted: bool) {
        let Some(entry) = self.pods.get(id.index()) else { return };
        let node = entry.placed.as_ref().map(|p| p.node);
        self.pods.at_mut(id.index()).preempted = preempted;
        if let Some(node) = node {
            self.change_node(node, Change::Relaxes, |_| ());
        }
    }

    /// The API server refused to delete a pod that was to make room: it stays.
    pub(crate) fn keep_preempted(&mut self, id: PodId) {
        if self.pods.get(id.index()).is_some() {
            self.pods.at_mut(id.index()).kept = true;
            self.mark_preempted(id, false);
        }
    }

    /// An assumed pod turned out to be bound where we wanted it.
    pub(crate) fn confirm(&mut self, id: PodId) {
        self.remember_pod(id);
        if let Some(placed) = &mut self.pods.at_mut(id.index()).placed {
            placed.stage = Stage::Bound;
        }
        self.settle_plan(id);
    }

    /// Writes down where a pod is, by somebody else's word. Never refused.
    pub(crate) fn observe(&mut self, id: PodId, node: &str, record: Option<&Allocation>) {
        self.unplace(id);
        self.remember_pod(id);
        let node_id = self.node_slot(node);
        let entry = self.pods.at(id.index());
        let (uid, charge, presence) = (entry.uid.clone(), entry.charge.clone(), entry.presence);
        self.note_presence(id, presence);
        let entry = self.pods.at(id.index());
        let class = self.classes.get(entry.class).clone();
        let (trusted, doubted) = match record {
            Some(record) => self.doubt(id, node_id, record, &class.spec.gpu),
            None => (None, None),
        };
        let guessed = trusted.is_none() && !class.spec.gpu.is_none();
        let allocation = trusted.unwrap_or_default();
        let entry = self.pods.at_mut(id.index());
        entry.placed = Some(Placed { node: node_id, allocation, stage: Stage::Bound, guessed, doubted });
        let mut updated = self.nodes.at(node_id.index()).clone();
        updated.add_pod(id, &charge, presence);
        self.hold(&mut updated, id);
        updated.measure_pod(&uid);
        self.commit(node_id, Change::Takes, updated);
    }

    /// Takes a pod off its node; what it held is free. A pod that is nowhere stays so.
    pub(crate) fn unplace(&mut self, id: PodId) -> Option<Placed> {
        let entry = self.pods.get(id.index())?;
        entry.placed.as_ref()?;
        self.remember_pod(id);
        let entry = self.pods.at_mut(id.index());
        let placed = entry.placed.take()?;
        let (uid, charge, presence) = (entry.uid.clone(), entry.charge.clone(), entry.presence);
        self.note_presence(id, presence);
        if self.transactions.is_empty() {
            let mut updated = self.nodes.at(placed.node.index()).clone();
            updated.remove_pod(id, &charge, presence);
            updated.ledger_mut().release(id, &uid);
            self.commit(placed.node, Change::Relaxes, updated);
            self.bury(placed.node);
            self.give_back_plan(id);
        } else {
            self.change_node(placed.node, Change::Relaxes, |n| {
                n.remove_pod(id, &charge, presence);
                n.ledger_mut().release(id, &uid);
            });
        }
        Some(placed)
    }
}

/// The record of a placement.
pub(crate) fn record(placement: &Placement, request: &crate::model::GpuRequest, ledger: &NodeLedger) -> Allocation {
    use crate::ledger::HoldKind;
    use crate::model::GrantKind;
    let containers = request.containers.iter().zip(&placement.containers).map(|(container, placed)| {
        // One kind names all devices of a container; where they differ, each is read by its card.
        let first = placed.grants.first().filter(|first| placed.grants.iter().all(|g| g.kind == first.kind));
        let kind = first.map(|g| match g.kind {
            HoldKind::Whole => GrantKind::Whole,
            HoldKind::Share => GrantKind::Share,
            HoldKind::Seat => GrantKind::Seat,
            HoldKind::Slice => GrantKind::Mig,
        });
        let devices = placed.grants.iter().map(|grant| {
            let card = &ledger.cards()[usize::from(grant.card)];
            DeviceGrant {
                uuid: card.uuid().to_string(),
                index: card.spec().index,
                memory: grant.memory,
                compute: grant.compute,
                mig: grant.slice.and_then(|at| Some(card.partitions().get(usize::from(at))?.uuid.clone())),
            }
        });
        ContainerAllocation { name: container.name.clone(), kind, devices: devices.collect() }
    });
    Allocation { containers: containers.collect() }
}
