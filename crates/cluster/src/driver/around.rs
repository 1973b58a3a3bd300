//! Kinds that only say something about pods and nodes: each object is a fact, and its end is one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{
    ClaimName, DisruptionBudget, LabelSelector, PodGroup, PodGroupName, StorageKey, Timestamp, Workload, WorkloadKind,
    WorkloadName,
};

use super::Driver;
use super::input::{Around, Change, Named, Seen};
use super::sync::Sync;
use crate::objects;
use crate::pod::DEFAULT_NAMESPACE;
use crate::problem::Finding;
use crate::selector::optional_selector;
use crate::storage;

/// Namespace, empty for kinds that have none, and name.
type Key = (String, String);

/// A kind of which facts are made one by one.
pub(crate) trait Neighbour: Named {
    /// The kind's name.
    const KIND: &'static str;
    /// What the engine is told of an object.
    fn applied(self, findings: &mut Vec<Finding>) -> Event;
    /// What the engine is told of its end.
    fn deleted(namespace: Arc<str>, name: Arc<str>) -> Event;
    /// Its key, if writes need its version.
    fn versioned(_namespace: &str, _name: &str) -> Option<StorageKey> {
        None
    }
}

/// How far the watch of such a kind is, and what it has shown.
#[derive(Debug, Default)]
pub(super) struct Kept {
    sync: Sync<Key>,
    known: BTreeSet<Key>,
}

/// All such kinds, by name.
#[derive(Debug)]
pub(super) struct Neighbours(BTreeMap<&'static str, Kept>);

impl Default for Neighbours {
    fn default() -> Self {
        Self(Around::KINDS.iter().map(|kind| (*kind, Kept::default())).collect())
    }
}

impl Neighbours {
    pub fn synced(&self) -> bool {
        self.0.values().all(|kept| kept.sync.synced())
    }
}

impl Driver {
    pub(super) fn take_around(&mut self, now: Timestamp, around: Around) {
        match around {
            Around::Namespaces(change) => self.take_neighbour(now, change),
            Around::Services(change) => self.take_neighbour(now, change),
            Around::ReplicationControllers(change) => self.take_neighbour(now, change),
            Around::ReplicaSets(change) => self.take_neighbour(now, change),
            Around::StatefulSets(change) => self.take_neighbour(now, change),
            Around::DisruptionBudgets(change) => self.take_neighbour(now, change),
            Around::PodGroups(change) => self.take_neighbour(now, change),
            Around::Claims(change) => self.take_neighbour(now, change),
            Around::Volumes(change) => self.take_neighbour(now, change),
            Around::StorageClasses(change) => self.take_neighbour(now, change),
            Around::CsiNodes(change) => self.take_neighbour(now, change),
            Around::CsiDrivers(change) => self.take_neighbour(now, change),
            Around::Capacities(change) => self.take_neighbour(now, change),
            Around::Attachments(change) => self.take_neighbour(now, change),
        }
    }

    fn take_neighbour<T: Neighbour>(&mut self, now: Timestamp, change: Change<T>) {
        let kept = self.neighbours.0.entry(T::KIND).or_default();
        match change {
            Change::Restarted => kept.sync.restart(),
            Change::Listed(seen) | Change::Applied(seen) => {
                let key = key(&seen);
                self.versions_of::<T>(&key, seen.metadata().resource_version.clone());
                let kept = self.neighbours.0.entry(T::KIND).or_default();
                kept.sync.saw(key.clone());
                kept.known.insert(key);
                let fact = self.problems.readable(T::KIND, seen, &mut self.effects, T::applied);
                if let Some(event) = fact {
                    self.engine.handle(now, event);
                }
            }
            Change::Deleted(seen) => {
                let key = key(&seen);
                kept.sync.lost(&key);
                kept.known.remove(&key);
                self.versions_of::<T>(&key, None);
                self.problems.forget(T::KIND, &key.0, &key.1);
                self.engine.handle(now, T::deleted(key.0.into(), key.1.into()));
            }
            Change::Synced | Change::Absent => {
                for key in kept.sync.finish(kept.known.iter().cloned().collect::<Vec<_>>().into_iter()) {
                    if let Some(kept) = self.neighbours.0.get_mut(T::KIND) {
                        kept.known.remove(&key);
                    }
                    self.versions_of::<T>(&key, None);
                    self.engine.handle(now, T::deleted(key.0.into(), key.1.into()));
                }
            }
        }
    }

    fn versions_of<T: Neighbour>(&mut self, key: &Key, version: Option<String>) {
        if let Some(key) = T::versioned(&key.0, &key.1) {
            self.volumes.note_version(key, version);
        }
    }
}

fn key<T: Named>(seen: &Seen<T>) -> Key {
    seen.reference()
}

/// Namespace and name.
fn names(metadata: &objects::ObjectMeta) -> (Arc<str>, Arc<str>) {
    let namespace = metadata.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(DEFAULT_NAMESPACE);
    (namespace.into(), metadata.name.as_str().into())
}

impl Neighbour for objects::Namespace {
    const KIND: &'static str = "Namespace";
    fn applied(self, _findings: &mut Vec<Finding>) -> Event {
        Event::NamespaceApplied { name: self.metadata.name.as_str().into(), labels: self.metadata.labels }
    }
    fn deleted(_namespace: Arc<str>, name: Arc<str>) -> Event {
        Event::NamespaceDeleted { name }
    }
}

fn workload(kind: WorkloadKind, metadata: &objects::ObjectMeta, selector: Option<LabelSelector>) -> Event {
    let (namespace, name) = names(metadata);
    Event::WorkloadApplied(Box::new(Workload { name: WorkloadName { kind, namespace, name }, selector }))
}

macro_rules! selects_by_labels {
    ($object:ident) => {
        impl Neighbour for objects::$object {
            const KIND: &'static str = stringify!($object);
            fn applied(self, _findings: &mut Vec<Finding>) -> Event {
                let selector = LabelSelector::of_labels(&self.spec.selector);
                workload(WorkloadKind::$object, &self.metadata, Some(selector))
            }
            fn deleted(namespace: Arc<str>, name: Arc<str>) -> Event {
                Event::WorkloadDeleted(WorkloadName { kind: WorkloadKind::$object, namespace, name })
            }
        }
    };
}
selects_by_labels!(Service);
selects_by_labels!(ReplicationController);

macro_rules! selects {
    ($object:ident) => {
        impl Neighbour for objects::$object {
            const KIND: &'static str = stringify!($object);
            fn applied(self, findings: &mut Vec<Finding>) -> Event {
                let selector = optional_selector(self.spec.selector.as_ref(), "spec.selector", findings);
                workload(WorkloadKind::$object, &self.metadata, selector)
            }
            fn deleted(namespace: Arc<str>, name: Arc<str>) -> Event {
                Event::WorkloadDeleted(WorkloadName { kind: WorkloadKind::$object, namespace, name })
            }
        }
    };
}
selects!(ReplicaSet);
selects!(StatefulSet);

impl Neighbour for objects::PodDisruptionBudget {
    const KIND: &'static str = "PodDisruptionBudget";
    fn applied(self, findings: &mut Vec<Finding>) -> Event {
        let (namespace, name) = names(&self.metadata);
        Event::DisruptionBudgetApplied(Box::new(DisruptionBudget {
            namespace,
            name,
            selector: optional_selector(self.spec.selector.as_ref(), "spec.selector", findings),
            disruptions_allowed: self.status.disruptions_allowed,
            disrupted: self.status.disrupted_pods.into_keys().collect(),
        }))
    }
    fn deleted(namespace: Arc<str>, name: Arc<str>) -> Event {
        Event::DisruptionBudgetDeleted { namespace, name }
    }
}

impl Neighbour for objects::PodGroup {
    const KIND: &'static str = "PodGroup";
    fn applied(self, _findings: &mut Vec<Finding>) -> Event {
        let (namespace, name) = names(&self.metadata);
        Event::PodGroupApplied(Box::new(PodGroup {
            name: PodGroupName { namespace, name },
            min_count: self.spec.scheduling_policy.gang.map(|gang| gang.min_count),
            disrupted_as_one: self.spec.disruption_mode.all.is_some(),
            priority: self.spec.priority,
        }))
    }
    fn deleted(namespace: Arc<str>, name: Arc<str>) -> Event {
        Event::PodGroupDeleted(PodGroupName { namespace, name })
    }
}

macro_rules! storage {
    ($object:ident, $kind:literal, $read:ident, |$namespace:ident, $name:ident| $key:expr, $versioned:expr) => {
        impl Neighbour for objects::$object {
            const KIND: &'static str = $kind;
            fn applied(self, findings: &mut Vec<Finding>) -> Event {
                Event::StorageApplied(Box::new(storage::$read(self, findings)))
            }
            fn deleted($namespace: Arc<str>, $name: Arc<str>) -> Event {
                Event::StorageDeleted($key)
            }
            fn versioned($namespace: &str, $name: &str) -> Option<StorageKey> {
                #[allow(unused_variables, reason = "most kinds have no namespace")]
                let ($namespace, $name): (Arc<str>, Arc<str>) = ($namespace.into(), $name.into());
                $versioned.then(|| $key)
            }
        }
    };
}
storage!(
    PersistentVolumeClaim,
    "PersistentVolumeClaim",
    read_claim,
    |namespace, name| StorageKey::Claim(ClaimName { namespace, name }),
    true
);
storage!(PersistentVolume, "PersistentVolume", read_volume, |_namespace, name| StorageKey::Volume(name), true);
storage!(StorageClass, "StorageClass", read_class, |_namespace, name| StorageKey::Class(name), false);
storage!(CsiNode, "CSINode", read_csi_node, |_namespace, name| StorageKey::CsiNode(name), false);
storage!(CsiDriver, "CSIDriver", read_csi_driver, |_namespace, name| StorageKey::CsiDriver(name), false);
storage!(
    CsiStorageCapacity,
    "CSIStorageCapacity",
    read_capacity,
    |namespace, name| StorageKey::Capacity { namespace, name },
    false
);
storage!(VolumeAttachment, "VolumeAttachment", read_attachment, |_namespace, name| StorageKey::Attachment(name), false);
