//! From one document's objects to facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{DeviceReport, Node, StorageObject, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::objects_of::Outline;
use crate::driver::Neighbour;
use crate::objects;
use crate::pod::DEFAULT_NAMESPACE;
use crate::problem::{Finding, ObjectRef, Origin, Problem};
use crate::{PodFact, read_device_report, read_node, read_pod, storage, time};

/// API group of our own objects, with the slash that ends it in an `apiVersion`.
const OWN_GROUP: &str = "gpu-scheduler.io/";
/// Where storage classes and what CSI drivers say are.
const STORAGE: &str = "storage.k8s.io/v1";

/// An object of which something is made.
#[derive(Debug)]
pub(super) enum Object {
    Node(Box<Node>),
    Report(DeviceReport),
    Pod(PodFact),
    Around(Event),
    Storage(Box<StorageObject>),
}

/// What one document says. It counts once the document has been read to its end.
#[derive(Debug)]
pub(super) struct Batch {
    file: Arc<str>,
    first_object: usize,
    /// Number of the next object in the file.
    pub next_object: usize,
    pub objects: Vec<(Object, Origin)>,
    /// Items that state no kind: a `PodList` says it once, and perhaps after them.
    kindless: Vec<(usize, Map<String, Value>)>,
    pub problems: Vec<Problem>,
    pub ignored: BTreeMap<String, usize>,
    pub newest: Option<Timestamp>,
}

impl Batch {
    /// A document of `file` whose first object has the number `first_object`.
    pub(super) fn new(file: Arc<str>, first_object: usize) -> Self {
        Self {
            file,
            first_object,
            next_object: first_object,
            objects: Vec::new(),
            kindless: Vec::new(),
            problems: Vec::new(),
            ignored: BTreeMap::new(),
            newest: None,
        }
    }

    /// Takes an item of a list of which the fields `list` are known so far.
    pub(super) fn item(&mut self, item: Value, list: &Map<String, Value>) {
        match item {
            Value::Object(fields) if text(&fields, "kind").is_empty() => {
                let index = self.count();
                match item_kind(text(list, "kind")) {
                    Some(kind) if list.contains_key("apiVersion") => {
                        self.read(index, text(list, "apiVersion"), kind, fields);
                    }
                    _ => self.kindless.push((index, fields)),
                }
            }
            Value::Object(fields) => self.object(fields),
            other => {
                let index = self.count();
                let what = format!("an object is expected, not {}", shape(&other));
                self.problem(index, None, Finding::new("", what, "remove it from the list"));
            }
        }
    }

    /// Takes the end of the document, where it turns out what its items are.
    pub(super) fn end(&mut self, outline: Outline) {
        let Outline { fields, has_items } = outline;
        if has_items && item_kind(text(&fields, "kind")).is_some() {
            self.end_list(&fields);
        } else if !fields.is_empty() || has_items {
            if has_items {
                // Some other kind that happens to have `items`: those were no objects.
                *self = Self::new(self.file.clone(), self.first_object);
            }
            self.object(fields);
        }
    }

    /// Reads the items that rely on their list for their kind.
    fn end_list(&mut self, list: &Map<String, Value>) {
        let kind = item_kind(text(list, "kind")).unwrap_or_default();
        for (index, fields) in std::mem::take(&mut self.kindless) {
            self.read(index, text(list, "apiVersion"), kind, fields);
        }
    }

    /// Takes an object that stands for itself, or a list within a list.
    fn object(&mut self, mut fields: Map<String, Value>) {
        if item_kind(text(&fields, "kind")).is_some()
            && let Some(Value::Array(items)) = fields.remove("items")
        {
            let outer = std::mem::take(&mut self.kindless);
            items.into_iter().for_each(|item| self.item(item, &fields));
            self.end_list(&fields);
            self.kindless = outer;
            return;
        }
        let index = self.count();
        let (api, kind) = (text(&fields, "apiVersion").to_owned(), text(&fields, "kind").to_owned());
        self.read(index, &api, &kind, fields);
    }

    fn count(&mut self) -> usize {
        let index = self.next_object;
        self.next_object += 1;
        index
    }

    fn read(&mut self, index: usize, api: &str, kind: &str, fields: Map<String, Value>) {
        self.newest = self.newest.max(newest(&fields));
        let core = matches!(api, "v1" | "");
        match kind {
            "" => {
                let advice = "write apiVersion and kind, as kubectl does";
                let identity = identity("object", &fields, true);
                self.problem(
                    index,
                    identity,
                    Finding::new("kind", "it is missing, and the object was left out", advice),
                );
            }
            "Node" if core => self.known(index, kind, false, fields, |object, findings| {
                Some(Object::Node(Box::new(read_node(object, findings))))
            }),
            "Pod" if core => {
                self.known(index, kind, true, fields, |object, findings| Some(Object::Pod(read_pod(object, findings))))
            }
            "PersistentVolumeClaim" if core => self.storage(index, kind, true, fields, storage::read_claim),
            "PersistentVolume" if core => self.storage(index, kind, false, fields, storage::read_volume),
            "StorageClass" if api == STORAGE => self.storage(index, kind, false, fields, storage::read_class),
            "CSINode" if api == STORAGE => self.storage(index, kind, false, fields, storage::read_csi_node),
            "CSIDriver" if api == STORAGE => self.storage(index, kind, false, fields, storage::read_csi_driver),
            "CSIStorageCapacity" if api == STORAGE => self.storage(index, kind, true, fields, storage::read_capacity),
            "VolumeAttachment" if api == STORAGE => self.storage(index, kind, false, fields, storage::read_attachment),
            "GPUNodeState" if api.starts_with(OWN_GROUP) => {
                self.known(index, kind, false, fields, |object, findings| {
                    read_device_report(object, findings).map(Object::Report)
                })
            }
            "Namespace" if core => self.around::<objects::Namespace>(index, false, fields),
            "Service" if core => self.around::<objects::Service>(index, true, fields),
            "ReplicationController" if core => self.around::<objects::ReplicationController>(index, true, fields),
            "ReplicaSet" if api.starts_with("apps/") => self.around::<objects::ReplicaSet>(index, true, fields),
            "StatefulSet" if api.starts_with("apps/") => self.around::<objects::StatefulSet>(index, true, fields),
            "PodDisruptionBudget" if api.starts_with("policy/") => {
                self.around::<objects::PodDisruptionBudget>(index, true, fields)
            }
            "PodGroup" if api.starts_with("scheduling.k8s.io/") => {
                self.around::<objects::PodGroup>(index, true, fields)
            }
            _ => {
                let name = if api.is_empty() { kind.to_owned() } else { format!("{api}/{kind}") };
                *self.ignored.entry(name).or_default() += 1;
            }
        }
    }

    /// An object that only says something about pods and nodes.
    fn around<T: Neighbour + DeserializeOwned>(&mut self, index: usize, namespaced: bool, fields: Map<String, Value>) {
        self.known(index, T::KIND, namespaced, fields, |object: T, findings| {
            Some(Object::Around(object.applied(findings)))
        });
    }

    fn storage<T: DeserializeOwned>(
        &mut self,
        index: usize,
        kind: &str,
        namespaced: bool,
        fields: Map<String, Value>,
        read: impl FnOnce(T, &mut Vec<Finding>) -> StorageObject,
    ) {
        self.known(index, kind, namespaced, fields, |object, findings| {
            Some(Object::Storage(Box::new(read(object, findings))))
        });
    }

    /// Decodes an object of a known kind and makes a fact of it.
    fn known<T: DeserializeOwned>(
        &mut self,
        index: usize,
        kind: &str,
        namespaced: bool,
        fields: Map<String, Value>,
        read: impl FnOnce(T, &mut Vec<Finding>) -> Option<Object>,
    ) {
        let Some(identity) = identity(kind, &fields, namespaced) else {
            let finding = Finding::new(
                "metadata.name",
                format!("it is missing, and the {kind} was left out"),
                "give the object a name",
            );
            self.problem(index, None, finding);
            return;
        };
        match serde_path_to_error::deserialize::<_, T>(Value::Object(fields)) {
            Ok(object) => {
                let mut findings = Vec::new();
                let object = read(object, &mut findings);
                for finding in findings {
                    self.problem(index, Some(identity.clone()), finding);
                }
                if let Some(object) = object {
                    let origin = self.origin(index, Some(identity));
                    self.objects.push((object, origin));
                }
            }
            Err(error) => {
                let path = error.path().to_string();
                let field = if path == "." { String::new() } else { path };
                let why = error.inner().to_string();
                let unquoted = why.contains("expected a string");
                let advice = if unquoted { "put it in quotes" } else { "write it as the API documents it" };
                let what = format!("{why}, and the {kind} was left out");
                self.problem(index, Some(identity), Finding::new(field, what, advice));
            }
        }
    }

    fn origin(&self, index: usize, identity: Option<ObjectRef>) -> Origin {
        Origin { file: Some(self.file.clone()), object: Some(index), identity, ..Origin::default() }
    }

    fn problem(&mut self, index: usize, identity: Option<ObjectRef>, finding: Finding) {
        let origin = self.origin(index, identity);
        self.problems.push(Problem { origin, finding });
    }
}

/// The kind of the items of a list of `kind`: `Pod` of a `PodList`, nothing in particular of a `List`. `None`
/// for what is not a list.
fn item_kind(kind: &str) -> Option<&str> {
    kind.strip_suffix("List")
}

/// A field that is a text; empty where it is not.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Who the object is, if it has a name.
fn identity(kind: &str, fields: &Map<String, Value>, namespaced: bool) -> Option<ObjectRef> {
    let metadata = fields.get("metadata")?.as_object()?;
    let name = text(metadata, "name");
    let namespace = match text(metadata, "namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    (!name.is_empty()).then(|| ObjectRef {
        kind: kind.to_owned(),
        namespace: namespaced.then(|| namespace.to_owned()),
        name: name.to_owned(),
    })
}

/// The newest timestamp of an object of any kind. Unreadable ones are reported where they mean something. A time of
/// deletion is none: it is when the grace period ends, which may be far ahead.
fn newest(fields: &Map<String, Value>) -> Option<Timestamp> {
    let of = |parent: &str, name: &str| {
        let text = fields.get(parent)?.get(name)?.as_str()?;
        time::parse_timestamp(text).ok()
    };
    of("metadata", "creationTimestamp").max(of("status", "updatedAt"))
}

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
