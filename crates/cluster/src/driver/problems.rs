//! Objects that make no sense are told of once, not at each of their versions.

use std::collections::{BTreeMap, VecDeque};

use super::effect::Effect;
use super::input::{Named, Seen};
use crate::problem::{Finding, ObjectRef, Origin, Problem};

/// Objects of which is remembered what was told; beyond that the oldest name goes, and may be told of again.
const MOST_REMEMBERED: usize = 10_000;

type Key = (&'static str, String, String);

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Problems {
    told: BTreeMap<Key, Vec<Finding>>,
}

impl Problems {
    /// Reads an object, and tells what is wrong with it unless that was told before. `None` where it cannot be read
    /// at all: what is known of it stays.
    pub fn readable<T: Named, F>(
        &mut self,
        kind: &'static str,
        seen: Seen<T>,
        effects: &mut VecDeque<Effect>,
        read: impl FnOnce(T, &mut Vec<Finding>) -> F,
    ) -> Option<F> {
        let mut findings = Vec::new();
        let (namespace, name) = (seen.metadata().namespace.clone(), seen.metadata().name.clone());
        let fact = match seen {
            Seen::Object(object) => Some(read(*object, &mut findings)),
            Seen::Broken { error, .. } => {
                let what = format!("it cannot be read and was skipped: {error}");
                findings.push(Finding::new("", what, "correct the object; until then what was known of it counts"));
                None
            }
        };
        self.tell(kind, namespace, name, findings, effects);
        fact
    }

    fn tell(
        &mut self,
        kind: &'static str,
        namespace: Option<String>,
        name: String,
        findings: Vec<Finding>,
        effects: &mut VecDeque<Effect>,
    ) {
        if findings.is_empty() && self.told.is_empty() {
            return; // as nearly always
        }
        let key = (kind, namespace.clone().unwrap_or_default(), name.clone());
        if findings.is_empty() {
            // In order again: the same fault is news if it comes back.
            self.told.remove(&key);
            return;
        }
        let told = self.told.get(&key).map(Vec::as_slice).unwrap_or_default();
        let identity = ObjectRef { kind: kind.to_owned(), namespace, name };
        for finding in findings.iter().filter(|f| !told.contains(f)) {
            let origin = Origin { identity: Some(identity.clone()), ..Origin::default() };
            effects.push_back(Effect::Problem(Problem { origin, finding: finding.clone() }));
        }
        if self.told.len() >= MOST_REMEMBERED && !self.told.contains_key(&key) {
            self.told.pop_first();
        }
        self.told.insert(key, findings);
    }

    /// An object is gone.
    pub fn forget(&mut self, kind: &'static str, namespace: &str, name: &str) {
        if !self.told.is_empty() {
            self.told.remove(&(kind, namespace.to_owned(), name.to_owned()));
        }
    }
}
