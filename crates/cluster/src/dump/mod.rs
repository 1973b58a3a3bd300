//! Reading dumps: what `kubectl get nodes,pods -A -o yaml` or `-o json` writes, and manifests written by hand.
//!
//! A dump is read object by object, in time linear in its size; no more than one object is held in full at
//! a time beside the text itself. What is broken is reported and costs as little as possible: a field its
//! value, an object itself, a document its objects. Only what cannot be opened at all is an error.

mod batch;
mod files;
mod objects_of;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{DeviceReport, Node, PodUid, StorageKey, StorageObject, Timestamp};

use crate::pod::{PodFact, made_up_uid};
use crate::problem::{Finding, Origin, Problem};
use batch::{Batch, Object};

pub use files::DumpError;

/// What a dump says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    /// Nodes, by name.
    pub nodes: Vec<Node>,
    /// Reports of nodes' cards, by node.
    pub reports: Vec<DeviceReport>,
    /// Pods, by creation, then namespace and name.
    pub pods: Vec<PodFact>,
    /// What is around them: namespaces, services, controllers, disruption budgets, pod groups.
    pub around: Vec<Event>,
    /// Claims, volumes and what else storage is known by, by kind and name.
    pub storage: Vec<StorageObject>,
    /// What was wrong, in the order in which it was found.
    pub problems: Vec<Problem>,
    /// Kinds of which nothing is made, as `<apiVersion>/<kind>`, with the number of objects.
    pub ignored: BTreeMap<String, usize>,
    /// The newest timestamp of any object: its creation, or a report's update.
    pub newest: Option<Timestamp>,
}

/// Reads dumps from `paths`: files, directories (all `.yaml`, `.yml` and `.json` files below, by name, without
/// hidden ones), and `-` for `stdin`.
///
/// # Errors
///
/// [`DumpError`] if a path cannot be read, names a directory without such files, or standard input is named
/// twice. What stands in the files is never an error; see [`Dump::problems`].
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Dump, DumpError> {
    let mut reader = DumpReader::default();
    for source in files::sources(paths)? {
        let bytes = source.bytes(stdin)?;
        reader.read_bytes(source.name(), &bytes);
    }
    Ok(reader.finish())
}

/// Reads a dump piece by piece.
///
/// ```
/// use gpu_scheduler_cluster::dump::DumpReader;
/// let mut reader = DumpReader::default();
/// reader.read_bytes("a.yaml", b"{apiVersion: v1, kind: Node, metadata: {name: n1}}");
/// let dump = reader.finish();
/// assert_eq!(dump.nodes[0].name, "n1");
/// assert!(dump.problems.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct DumpReader {
    nodes: BTreeMap<String, (Node, Origin)>,
    reports: BTreeMap<String, (DeviceReport, Origin)>,
    pods: BTreeMap<(String, String), (PodFact, Origin)>,
    around: Vec<Event>,
    storage: BTreeMap<StorageKey, (StorageObject, Origin)>,
    problems: Vec<Problem>,
    ignored: BTreeMap<String, usize>,
    newest: Option<Timestamp>,
}

impl DumpReader {
    /// Reads the contents of one file, YAML or JSON. `file` is its name in problems; one that ends with
    /// `.json` is never taken for YAML.
    pub fn read_bytes(&mut self, file: &str, bytes: &[u8]) {
        let file: Arc<str> = file.into();
        match text::decode(bytes) {
            Ok(text) => text::read(&file, &text, &mut |batch| self.take(batch)),
            Err(finding) => {
                let origin = Origin { file: Some(file), ..Origin::default() };
                self.problems.push(Problem { origin, finding });
            }
        }
    }

    /// All that was read.
    pub fn finish(mut self) -> Dump {
        let mut pods: Vec<(PodFact, Origin)> = self.pods.into_values().collect();
        // Stable, and the map was in order of namespace and name.
        pods.sort_by_key(|(pod, _)| pod.created_at());
        set_uids_apart(&mut pods, &mut self.problems);
        Dump {
            nodes: self.nodes.into_values().map(|(node, _)| node).collect(),
            reports: self.reports.into_values().map(|(report, _)| report).collect(),
            pods: pods.into_iter().map(|(pod, _)| pod).collect(),
            around: self.around,
            storage: self.storage.into_values().map(|(object, _)| object).collect(),
            problems: self.problems,
            ignored: self.ignored,
            newest: self.newest,
        }
    }

    fn take(&mut self, batch: Batch) {
        self.problems.extend(batch.problems);
        for (kind, count) in batch.ignored {
            *self.ignored.entry(kind).or_default() += count;
        }
        self.newest = self.newest.max(batch.newest);
        for (object, origin) in batch.objects {
            let entry = (origin.clone(), object);
            let earlier = match entry {
                (origin, Object::Node(node)) => {
                    self.nodes.insert(node.name.clone(), (*node, origin)).map(|(_, earlier)| earlier)
                }
                // A later one is a change, to the engine too.
                (_, Object::Around(event)) => {
                    self.around.push(event);
                    None
                }
                (origin, Object::Report(report)) => {
                    self.reports.insert(report.node.clone(), (report, origin)).map(|(_, earlier)| earlier)
                }
                (origin, Object::Pod(pod)) => {
                    let name = (pod.namespace().to_owned(), pod.name().to_owned());
                    self.pods.insert(name, (pod, origin)).map(|(_, earlier)| earlier)
                }
                (origin, Object::Storage(object)) => {
                    self.storage.insert(object.key(), (*object, origin)).map(|(_, earlier)| earlier)
                }
            };
            if let Some(earlier) = earlier {
                let place = Origin { identity: None, ..earlier };
                let what = format!("it stands in {place} too, and this later definition counts");
                self.problems.push(Problem { origin, finding: Finding::new("", what, "remove one of the two") });
            }
        }
    }
}

/// Gives pods with the UID of another a made-up one. A UID is a pod's identity, and manifests copied from a
/// running pod bring its UID along.
fn set_uids_apart(pods: &mut [(PodFact, Origin)], problems: &mut Vec<Problem>) {
    let mut seen: BTreeSet<PodUid> = BTreeSet::new();
    for (pod, origin) in pods {
        if seen.insert(pod.uid().clone()) {
            continue;
        }
        let what = format!("another pod has the UID {:?} too, and this one was given another", pod.uid().0);
        let uid = made_up_uid(pod.namespace(), pod.name());
        problems.push(Problem {
            origin: origin.clone(),
            finding: Finding::new("metadata.uid", what, "remove the UID from a manifest that was copied"),
        });
        seen.insert(uid.clone());
        pod.set_uid(uid);
    }
}

#[cfg(test)]
mod tests;
