//! A model of the API server: objects with versions, a history that whoever watches is told from and that is compacted, and
//! writes under preconditions.

mod pods;

use std::collections::BTreeMap;
use std::rc::Rc;

use gpu_scheduler_cluster::live::Record;
use gpu_scheduler_cluster::objects;
use serde_json::{Value, json};

use super::plan::Kind;

pub use pods::delete as delete_pod;

/// An object as a watch shows it, read once.
#[derive(Debug, Clone)]
pub enum Read {
    /// A node.
    Node(Box<objects::Node>),
    /// A pod.
    Pod(Box<objects::Pod>),
    /// A report.
    Report(Box<objects::GpuNodeState>),
    /// A pod group.
    Group(Box<objects::PodGroup>),
}

impl Read {
    fn of(kind: Kind, value: &Value) -> Self {
        fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Box<T> {
            Box::new(serde_json::from_value(value.clone()).expect("the model writes objects that can be read"))
        }
        match kind {
            Kind::Nodes => Self::Node(read(value)),
            Kind::Pods => Self::Pod(read(value)),
            Kind::Reports => Self::Report(read(value)),
            Kind::Groups => Self::Group(read(value)),
        }
    }
}

/// An object at one version.
#[derive(Debug)]
pub struct Stored {
    /// All of it.
    pub value: Value,
    /// As a watch shows it.
    pub read: Read,
}

impl Stored {
    /// Whether the watch shows it: pods that came to their end are not selected.
    fn is_selected(&self) -> bool {
        !matches!(self.value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    }
}

/// Something that a watch may show.
#[derive(Debug, Clone)]
pub struct News {
    /// The version that came of it.
    pub version: u64,
    /// Whether the object is not to be seen any more.
    pub gone: bool,
    /// The object.
    pub object: Rc<Stored>,
}

/// What somebody wrote, for whoever looks on.
#[derive(Debug, Clone)]
pub struct Written {
    /// The kind.
    pub kind: Kind,
    /// The object as it is now, or was when it was deleted.
    pub object: Rc<Stored>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// The API server.
#[derive(Debug, Default)]
pub struct ApiServer {
    version: u64,
    objects: [BTreeMap<String, Rc<Stored>>; 4],
    history: [Vec<News>; 4],
    /// Who watches from before this has to list anew.
    oldest: u64,
    lease: Option<Record>,
    /// What was written since somebody last looked.
    written: Vec<Written>,
}

impl ApiServer {
    /// The newest version of anything.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All objects of a kind.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Rc<Stored>> {
        self.objects[kind.index()].values()
    }

    /// What a list of a kind shows.
    pub fn list(&self, kind: Kind) -> Vec<Rc<Stored>> {
        self.all(kind).filter(|object| object.is_selected()).cloned().collect()
    }

    /// An object.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Rc<Stored>> {
        self.objects[kind.index()].get(name)
    }

    /// What whoever watched up to `from` is told next, up to `until`; `None` where that is forgotten.
    pub fn news(&self, kind: Kind, from: u64, until: u64) -> Option<&[News]> {
        if from < self.oldest {
            return None;
        }
        let history = &self.history[kind.index()];
        let first = history.partition_point(|news| news.version <= from);
        let end = history.partition_point(|news| news.version <= until.max(from));
        Some(&history[first..end])
    }

    /// Forgets everything up to now.
    pub fn compact(&mut self) {
        self.oldest = self.version;
        for history in &mut self.history {
            history.clear();
        }
    }

    /// What was written since this was last asked.
    pub fn take_written(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }

    /// Creates or replaces an object.
    pub fn put(&mut self, kind: Kind, name: &str, mut value: Value) {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let read = Read::of(kind, &value);
        let object = Rc::new(Stored { value, read });
        let before = self.objects[kind.index()].insert(name.to_owned(), object.clone());
        let was_selected = before.is_some_and(|before| before.is_selected());
        let gone = !object.is_selected();
        if !gone || was_selected {
            self.history[kind.index()].push(News { version: self.version, gone, object: object.clone() });
        }
        self.written.push(Written { kind, object, deleted: false });
    }

    /// Changes an object, if it is there.
    pub fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(object) = self.get(kind, name) else { return };
        let mut value = object.value.clone();
        change(&mut value);
        if value != object.value {
            self.put(kind, name, value);
        }
    }

    /// Deletes an object at once, if it is there.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        let Some(object) = self.objects[kind.index()].remove(name) else { return };
        self.version += 1;
        let mut value = object.value.clone();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let was_selected = object.is_selected();
        let object = Rc::new(Stored { value, read: object.read.clone() });
        if was_selected {
            self.history[kind.index()].push(News { version: self.version, gone: true, object: object.clone() });
        }
        self.written.push(Written { kind, object, deleted: true });
    }

    /// The Lease.
    pub fn lease(&self) -> Option<Record> {
        self.lease.clone()
    }

    /// Writes the Lease, if it is still of the version that `record` has, none being the version of one that is not
    /// there. Returns it as it is now.
    pub fn write_lease(&mut self, mut record: Record) -> Result<Record, (u16, Value)> {
        let current = self.lease.as_ref().map(|lease| lease.version.clone()).unwrap_or_default();
        if current != record.version {
            return Err(status(409, "the lease has been modified; apply your changes to the latest version"));
        }
        self.version += 1;
        record.version = self.version.to_string();
        self.lease = Some(record.clone());
        Ok(record)
    }
}

/// A refusal.
pub fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}))
}

/// When an object of the model is being deleted.
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The UID of an object.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The node of a pod.
pub fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
