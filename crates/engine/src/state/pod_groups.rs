//! Pod groups and their members.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{PodGroup, PodGroupName, PodId};
use crate::state::{PodEntry, State};

/// What is known under a group's name: the group may come after its pods, and go before them.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
struct Known {
    group: Option<PodGroup>,
    members: BTreeSet<PodId>,
}

#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct PodGroups(#[serde(with = "crate::collections::pairs")] BTreeMap<PodGroupName, Known>);

impl PodGroups {
    pub fn join(&mut self, group: &PodGroupName, pod: PodId) {
        self.0.entry(group.clone()).or_default().members.insert(pod);
    }

    pub fn leave(&mut self, group: &PodGroupName, pod: PodId) {
        if let Some(known) = self.0.get_mut(group) {
            known.members.remove(&pod);
            if known.members.is_empty() && known.group.is_none() {
                self.0.remove(group);
            }
        }
    }
}

impl State {
    pub(crate) fn apply_pod_group(&mut self, group: PodGroup) {
        let name = group.name.clone();
        self.pod_groups.0.entry(name).or_default().group = Some(group);
    }

    pub(crate) fn delete_pod_group(&mut self, name: &PodGroupName) {
        if let Some(known) = self.pod_groups.0.get_mut(name) {
            known.group = None;
            if known.members.is_empty() {
                self.pod_groups.0.remove(name);
            }
        }
    }

    /// A pod group, once its object is there.
    pub fn pod_group(&self, name: &PodGroupName) -> Option<&PodGroup> {
        self.pod_groups.0.get(name)?.group.as_ref()
    }

    /// The pods of a group, by slot.
    pub fn members(&self, name: &PodGroupName) -> impl Iterator<Item = &PodEntry> {
        let members = self.pod_groups.0.get(name).into_iter().flat_map(|known| &known.members);
        members.filter_map(|id| self.pod(*id))
    }

    /// The pods that go with this one when it has to make room: itself, or all placed pods of its group.
    pub fn disruption_unit(&self, pod: &PodEntry) -> Vec<PodId> {
        let as_one = |name: &&PodGroupName| self.pod_group(name).is_some_and(|g| g.disrupted_as_one);
        match pod.group.as_ref().filter(as_one) {
            Some(group) => self.members(group).filter(|p| p.placed.is_some()).map(|p| p.id).collect(),
            None => vec![pod.id],
        }
    }
}
