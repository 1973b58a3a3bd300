//! What is wrong with an object, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

/// One thing that is wrong within an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path of the field, such as `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub field: String,
    /// What is wrong and what was made of it.
    pub what: String,
    /// What the reader can do about it.
    pub advice: String,
}

impl Finding {
    /// A finding about `field`.
    pub fn new(field: impl Into<String>, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

/// Which object something is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: String,
    /// Its namespace; `None` for kinds that have none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Where something was read. What is not known is left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Origin {
    /// The file; `-` is standard input.
    pub file: Option<Arc<str>>,
    /// Number of the YAML or JSON document in the file, from 0.
    pub document: Option<usize>,
    /// Line in the file, from 1.
    pub line: Option<u64>,
    /// Number of the object in the file, from 0, where the items of lists count one by one.
    pub object: Option<usize>,
    /// The object, as far as it names itself.
    pub identity: Option<ObjectRef>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(document) = self.document {
            parts.push(format!("document {document}"));
        }
        if let Some(line) = self.line {
            parts.push(format!("line {line}"));
        }
        match (self.object, &self.identity) {
            (Some(index), Some(identity)) => parts.push(format!("object {index} ({identity})")),
            (Some(index), None) => parts.push(format!("object {index}")),
            (None, Some(identity)) => parts.push(identity.to_string()),
            (None, None) => {}
        }
        let place = parts.join(", ");
        match &self.file {
            Some(file) if place.is_empty() => f.write_str(file),
            Some(file) => write!(f, "{file}: {place}"),
            None => f.write_str(&place),
        }
    }
}

/// A [`Finding`] with the place where it was made. It never stops the reading of the rest.
///
/// ```
/// use gpu_scheduler_cluster::{Finding, ObjectRef, Origin, Problem};
/// let identity = ObjectRef { kind: "Pod".into(), namespace: Some("default".into()), name: "a".into() };
/// let origin = Origin { file: Some("d.yaml".into()), object: Some(3), identity: Some(identity), ..Origin::default() };
/// let problem = Problem { origin, finding: Finding::new("spec.priority", "it is not a number", "write a number") };
/// let text = "d.yaml: object 3 (Pod default/a), field spec.priority: it is not a number; write a number";
/// assert_eq!(problem.to_string(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// What.
    pub finding: Finding,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.origin.to_string();
        let separator = if origin.is_empty() { "" } else { ", " };
        if self.finding.field.is_empty() {
            let separator = if origin.is_empty() { "" } else { ": " };
            write!(f, "{origin}{separator}{}", self.finding)
        } else {
            write!(f, "{origin}{separator}field {}: {}", self.finding.field, self.finding)
        }
    }
}
