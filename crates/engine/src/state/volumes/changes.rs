//! How storage changes, and whom that concerns.

use std::sync::Arc;

use crate::model::{
    ClaimName, CsiDriver, CsiNode, PodId, StorageCapacity, StorageClass, StorageKey, StorageObject, Volume,
    VolumeAttachment, VolumeClaim,
};
use crate::state::volumes::{KnownCapacity, KnownClass, KnownVolume, note, strike};
use crate::state::{Change, Disturbance, State};

impl State {
    /// An object appeared or changed.
    pub(crate) fn apply_storage(&mut self, object: StorageObject) {
        match object {
            StorageObject::Claim(claim) => self.set_claim(&claim.name.clone(), Some(claim)),
            StorageObject::Volume(volume) => self.set_volume(&volume.name.clone(), Some(volume)),
            StorageObject::Class(class) => self.set_class(&class.name.clone(), Some(class)),
            StorageObject::CsiNode(node) => self.set_csi_node(&node.name.clone(), Some(node)),
            StorageObject::CsiDriver(driver) => self.set_csi_driver(&driver.name.clone(), Some(driver)),
            StorageObject::Capacity(capacity) => {
                let key = (capacity.namespace.clone(), capacity.name.clone());
                self.set_capacity(key, Some(capacity));
            }
            StorageObject::Attachment(attachment) => self.set_attachment(&attachment.name.clone(), Some(attachment)),
        }
    }

    /// An object is gone.
    pub(crate) fn delete_storage(&mut self, key: &StorageKey) {
        match key {
            StorageKey::Claim(name) => self.set_claim(name, None),
            StorageKey::Volume(name) => self.set_volume(name, None),
            StorageKey::Class(name) => self.set_class(name, None),
            StorageKey::CsiNode(name) => self.set_csi_node(name, None),
            StorageKey::CsiDriver(name) => self.set_csi_driver(name, None),
            StorageKey::Capacity { namespace, name } => self.set_capacity((namespace.clone(), name.clone()), None),
            StorageKey::Attachment(name) => self.set_attachment(name, None),
        }
    }

    fn set_claim(&mut self, name: &ClaimName, claim: Option<VolumeClaim>) {
        if self.volumes.claim(name) == claim.as_ref() {
            return;
        }
        let volume = claim.as_ref().and_then(|c| c.volume.clone());
        match claim {
            Some(claim) => drop(self.volumes.claims.insert(name.clone(), claim)),
            None => drop(self.volumes.claims.remove(name)),
        }
        self.disturbances.push(Disturbance::Claim(name.clone()));
        let users: Vec<PodId> = self.volumes.users(name).collect();
        // What it stands for may not count on its users' nodes any more, or may be what is attached there already.
        let attached = |v: &Arc<str>| self.volumes.attachments.values().any(|a| a.volume.as_ref() == Some(v));
        if volume.as_ref().is_none_or(attached) {
            self.relax_nodes_of(&users);
        }
        users.into_iter().for_each(|pod| self.settle_plan(pod));
    }

    fn set_volume(&mut self, name: &Arc<str>, volume: Option<Volume>) {
        let before = self.volumes.volumes.get(name);
        if before.map(|v| &v.facts) == volume.as_ref() {
            return;
        }
        let free = |v: &Volume| v.claim.is_none();
        let was_for = before.and_then(|v| v.facts.claim.as_ref()).map(|c| c.name.clone());
        if let Some(before) = self.volumes.volumes.remove(name) {
            strike(&mut self.volumes.of_class, &before.facts.class, name);
        }
        let gone = volume.is_none();
        let now_for = volume.as_ref().and_then(|v| v.claim.as_ref()).map(|c| c.name.clone());
        let class = volume.as_ref().filter(|v| free(v)).map(|v| v.class.clone());
        if let Some(volume) = volume {
            note(&mut self.volumes.of_class, &volume.class, name);
            let known = KnownVolume::new(volume, &mut self.symbols);
            self.volumes.volumes.insert(name.clone(), known);
        }
        let mut concerned = vec![now_for.clone()];
        if was_for != now_for {
            concerned.push(was_for);
        }
        for claim in concerned.iter().cloned() {
            self.disturbances.push(Disturbance::Volume { name: name.clone(), claim, class: class.clone() });
        }
        if gone {
            self.relax_attached(name);
        }
        for claim in concerned.into_iter().flatten() {
            let users: Vec<PodId> = self.volumes.users(&claim).collect();
            // Its users' nodes may count it as something that is there already.
            self.relax_nodes_of(&users);
            users.into_iter().for_each(|pod| self.settle_plan(pod));
        }
    }

    fn set_class(&mut self, name: &Arc<str>, class: Option<StorageClass>) {
        if self.volumes.class(name).map(|c| &c.facts) == class.as_ref() {
            return;
        }
        match class {
            Some(class) => {
                let known = KnownClass::new(class, &mut self.symbols);
                self.volumes.classes.insert(name.clone(), known);
            }
            None => drop(self.volumes.classes.remove(name)),
        }
        self.disturbances.push(Disturbance::Storage);
    }

    fn set_csi_node(&mut self, name: &Arc<str>, node: Option<CsiNode>) {
        if self.volumes.csi_node(name) == node.as_ref() {
            return;
        }
        match node {
            Some(node) => drop(self.volumes.csi_nodes.insert(name.clone(), node)),
            None => drop(self.volumes.csi_nodes.remove(name)),
        }
        self.relax_node(name);
    }

    fn set_csi_driver(&mut self, name: &Arc<str>, driver: Option<CsiDriver>) {
        if self.volumes.csi_driver(name) == driver.as_ref() {
            return;
        }
        match driver {
            Some(driver) => drop(self.volumes.csi_drivers.insert(name.clone(), driver)),
            None => drop(self.volumes.csi_drivers.remove(name)),
        }
        self.disturbances.push(Disturbance::Storage);
    }

    fn set_capacity(&mut self, key: (Arc<str>, Arc<str>), capacity: Option<StorageCapacity>) {
        let before = self.volumes.capacities.get(&key).map(|c| &c.facts);
        if before == capacity.as_ref() {
            return;
        }
        // A capacity that only shrank lets nobody in.
        let relaxes = capacity.as_ref().filter(|now| {
            before.is_none_or(|b| b.limit() < now.limit() || (&b.class, &b.topology) != (&now.class, &now.topology))
        });
        if let Some(capacity) = relaxes {
            self.disturbances.push(Disturbance::Capacity(capacity.class.clone()));
        }
        match capacity {
            Some(capacity) => {
                let known = KnownCapacity::new(capacity, &mut self.symbols);
                self.volumes.capacities.insert(key, known);
            }
            None => drop(self.volumes.capacities.remove(&key)),
        }
    }

    fn set_attachment(&mut self, name: &Arc<str>, attachment: Option<VolumeAttachment>) {
        if self.volumes.attachments.get(name) == attachment.as_ref() {
            return;
        }
        if let Some(before) = self.volumes.attachments.remove(name) {
            strike(&mut self.volumes.on_node, &before.node, name);
            self.relax_limited(&before);
        }
        if let Some(attachment) = attachment {
            note(&mut self.volumes.on_node, &attachment.node, name);
            self.volumes.attachments.insert(name.clone(), attachment);
        }
    }

    /// What was attached is not: its node may take more, if the driver counts.
    fn relax_limited(&mut self, attachment: &VolumeAttachment) {
        let csi = self.volumes.csi_node(&attachment.node);
        if csi.is_some_and(|c| c.drivers.get(&attachment.attacher).is_some_and(Option::is_some)) {
            self.relax_node(&attachment.node);
        }
    }

    fn relax_attached(&mut self, volume: &Arc<str>) {
        let of = self.volumes.attachments.values().filter(|a| a.volume.as_ref() == Some(volume));
        let of: Vec<VolumeAttachment> = of.cloned().collect();
        of.iter().for_each(|attachment| self.relax_limited(attachment));
    }

    fn relax_nodes_of(&mut self, pods: &[PodId]) {
        for pod in pods {
            let node = self.pods.get(pod.index()).and_then(|p| p.placed.as_ref()).map(|p| p.node);
            let Some(node) = node.and_then(|id| self.nodes.get(id.index())) else { continue };
            let limited = self.volumes.csi_node(node.name()).is_some_and(|c| c.drivers.values().any(Option::is_some));
            if limited {
                let id = node.id();
                self.change_node(id, Change::Relaxes, |_| ());
            }
        }
    }

    fn relax_node(&mut self, name: &str) {
        if let Some(id) = self.node_by_name.get(name).copied() {
            self.change_node(id, Change::Relaxes, |_| ());
        }
    }
}
