//! Objects of a watch, decoded straight into the few fields that are read of them.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta as Meta;
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::driver::{Named, Seen};
use crate::metrics::Watched as Name;
use crate::objects::{
    CsiDriver, CsiNode, CsiStorageCapacity, GpuNodeState, Namespace, Node, ObjectMeta, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodGroup, ReplicaSet, ReplicationController, Service, StatefulSet,
    StorageClass, VolumeAttachment,
};

/// A kind that is watched.
pub trait Kind: Named + DeserializeOwned + Debug + Clone + Send + 'static {
    /// API group; empty for the core.
    const GROUP: &'static str;
    /// Version within it.
    const VERSION: &'static str;
    /// The kind's name.
    const KIND: &'static str;
    /// Its name in paths.
    const NAME: Name;
    /// Whether a server may not know it.
    const OPTIONAL: bool = false;
    /// Which objects of it matter here, as a field selector.
    const FIELDS: Option<&'static str> = None;
}

impl Kind for Node {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const NAME: Name = Name::Nodes;
}

impl Kind for Pod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const NAME: Name = Name::Pods;
    // A pod that comes to its end leaves the selection: the watch says that it was deleted.
    const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");
}

impl Kind for GpuNodeState {
    const GROUP: &'static str = "gpu-scheduler.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "GPUNodeState";
    const NAME: Name = Name::GpuNodeStates;
    const OPTIONAL: bool = true;
}

macro_rules! kind {
    ($object:ident, $group:literal, $name:ident) => {
        kind!($object, stringify!($object), $group, $name);
    };
    ($object:ident, $kind:expr, $group:literal, $name:ident) => {
        impl Kind for $object {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = "v1";
            const KIND: &'static str = $kind;
            const NAME: Name = Name::$name;
        }
    };
}
kind!(Namespace, "", Namespaces);
kind!(Service, "", Services);
kind!(ReplicationController, "", ReplicationControllers);
kind!(ReplicaSet, "apps", ReplicaSets);
kind!(StatefulSet, "apps", StatefulSets);
kind!(PodDisruptionBudget, "policy", DisruptionBudgets);
kind!(PersistentVolumeClaim, "", VolumeClaims);
kind!(PersistentVolume, "", Volumes);
kind!(StorageClass, "storage.k8s.io", StorageClasses);
kind!(CsiNode, "CSINode", "storage.k8s.io", CsiNodes);
kind!(CsiDriver, "CSIDriver", "storage.k8s.io", CsiDrivers);
kind!(CsiStorageCapacity, "CSIStorageCapacity", "storage.k8s.io", StorageCapacities);
kind!(VolumeAttachment, "storage.k8s.io", VolumeAttachments);

impl Kind for PodGroup {
    const GROUP: &'static str = "scheduling.k8s.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "PodGroup";
    const NAME: Name = Name::PodGroups;
    // Behind a gate that is off by default, and not to be had in this version before 1.37.
    const OPTIONAL: bool = true;
}

/// An object of a watch. Decoding it never fails, so that one broken object costs nobody else.
#[derive(Debug, Clone)]
pub struct Watched<T> {
    /// What the watch itself needs: name and version.
    meta: Meta,
    /// The object.
    pub seen: Seen<T>,
}

/// As much of an object as names it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Outline {
    metadata: ObjectMeta,
}

impl<T: Kind> Watched<T> {
    fn read(json: &str) -> Self {
        let seen = match serde_json::from_str::<T>(json) {
            Ok(object) => Seen::Object(Box::new(object)),
            Err(error) => {
                let outline: Outline = serde_json::from_str(json).unwrap_or_default();
                Seen::Broken { metadata: Box::new(outline.metadata), error: error.to_string() }
            }
        };
        let metadata = seen.metadata();
        let meta = Meta {
            name: Some(metadata.name.clone()),
            namespace: metadata.namespace.clone(),
            resource_version: metadata.resource_version.clone(),
            ..Meta::default()
        };
        Self { meta, seen }
    }
}

impl<'de, T: Kind> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::read(raw.get()))
    }
}

impl<T: Kind> Resource for Watched<T> {
    type DynamicType = ();
    // All namespaces are watched at once.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        T::KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        T::GROUP.into()
    }
    fn version((): &()) -> Cow<'_, str> {
        T::VERSION.into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        T::NAME.as_str().into()
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::api::WatchEvent;
    use kube::core::ObjectList;

    use super::*;

    const GOOD: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","managedFields":[{}]},
        "spec":{"nodeName":"n1","volumes":[{"name":"v"}]}}"#;
    const BAD: &str =
        r#"{"metadata":{"name":"b","namespace":"n","uid":"v","resourceVersion":"8"},"spec":{"priority":"high"}}"#;

    #[test]
    fn an_event_is_decoded_into_what_is_read() {
        let text = format!(r#"{{"type":"MODIFIED","object":{GOOD}}}"#);
        let event: WatchEvent<Watched<Pod>> = serde_json::from_str(&text).expect("an event");
        let WatchEvent::Modified(pod) = event else { panic!("{event:?}") };
        assert_eq!(pod.meta().resource_version.as_deref(), Some("7"));
        let Seen::Object(pod) = pod.seen else { panic!("it can be read") };
        assert_eq!((pod.spec.node_name.as_str(), pod.metadata.uid.as_deref()), ("n1", Some("u")));
    }

    #[test]
    fn a_broken_object_spoils_no_list() {
        let text = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{GOOD},{BAD},{GOOD}]}}"#
        );
        let list: ObjectList<Watched<Pod>> = serde_json::from_str(&text).expect("a list");
        let broken: Vec<_> = list.items.iter().map(|w| matches!(w.seen, Seen::Broken { .. })).collect();
        assert_eq!(broken, [false, true, false]);
        let Seen::Broken { metadata, error } = &list.items[1].seen else { panic!("broken") };
        assert_eq!((metadata.name.as_str(), metadata.uid.as_deref()), ("b", Some("v")));
        assert!(error.contains("invalid type"), "{error}");
        assert_eq!(list.items[1].meta().resource_version.as_deref(), Some("8"), "or the watch could not go on");
    }
}
