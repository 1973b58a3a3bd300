//! What series are about: cards and GPU instances, with the labels that DCGM exporter gives them, in its order.

use crate::inventory::{Card, Inventory};
use crate::nvml::{Activity, Memory, Sample};
use crate::usage::{CardUse, Holder, having};

/// The labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The name of the label with the node's name. DCGM exporter's releases write `Hostname`, its newest source `hostname`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostnameLabel {
    /// `Hostname`.
    #[default]
    Capital,
    /// `hostname`.
    Small,
}

impl HostnameLabel {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Capital => "Hostname",
            Self::Small => "hostname",
        }
    }
}

/// A card or GPU instance with what it measured.
pub(super) struct Entity<'a> {
    pub labels: Labels,
    /// Of cards.
    pub sample: Option<&'a Sample>,
    /// Of cards that are not partitioned, and of GPU instances: so that a sum counts nothing twice.
    pub memory: Option<Memory>,
    pub activity: Option<Activity>,
}

/// The names that all series have.
pub(super) struct Common<'a> {
    pub node: &'a str,
    pub hostname_label: HostnameLabel,
    pub inventory: &'a Inventory,
}

impl Common<'_> {
    /// The card, then its GPU instances.
    pub fn entities<'a>(&self, card: &'a Card, sample: &'a Sample, usage: Option<&CardUse>) -> Vec<Entity<'a>> {
        let holders = usage.map(|usage| usage.holders.as_slice()).unwrap_or_default();
        let split = !sample.instances.is_empty();
        let mut entities = vec![Entity {
            labels: self.labels(card, None, if split { None } else { having(holders.iter()) }),
            sample: Some(sample),
            memory: sample.memory.filter(|_| !split),
            activity: sample.activity.filter(|_| !split),
        }];
        for instance in &sample.instances {
            let id = instance.gpu_instance;
            let on_it = holders.iter().filter(|holder| holder.gpu_instance == Some(id));
            entities.push(Entity {
                labels: self.labels(card, Some(id), having(on_it)),
                sample: None,
                memory: instance.memory,
                activity: instance.activity,
            });
        }
        entities
    }

    /// Labels of a series about a card or GPU instance, and about the container that has it.
    pub fn labels(&self, card: &Card, gpu_instance: Option<u32>, holder: Option<&Holder>) -> Labels {
        let mut labels: Labels = vec![
            ("gpu", card.index.0.to_string()),
            ("UUID", card.uuid.to_string()),
            ("pci_bus_id", card.pci.to_string()),
            ("device", format!("nvidia{}", card.minor.0)),
            ("modelName", card.name.clone()),
        ];
        if let Some(id) = gpu_instance {
            // The profile of the GPU instance, whatever compute instance is in it.
            let part = card.mig.devices().iter().find(|part| part.gpu_instance == id);
            let profile = part.map(|part| part.profile.0.split_once("c.").map_or(&*part.profile.0, |(_, rest)| rest));
            labels.push(("GPU_I_PROFILE", profile.unwrap_or_default().to_owned()));
            labels.push(("GPU_I_ID", id.to_string()));
        }
        labels.push((self.hostname_label.as_str(), self.node.to_owned()));
        labels.push(("DCGM_FI_DRIVER_VERSION", self.inventory.driver_version.clone()));
        if let Some(holder) = holder {
            if let Some(container) = &holder.container {
                labels.push(("container", container.clone()));
            }
            labels.push(("namespace", holder.namespace.clone()));
            labels.push(("pod", holder.pod.clone()));
        }
        labels
    }
}
