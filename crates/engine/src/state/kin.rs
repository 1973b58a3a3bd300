//! What selectors can tell of a pod: its namespace, and those of its labels that any selector looks at.
//!
//! Most labels (a job's name, a pod's index) mean nothing to scheduling, and pods that differ only in them are the
//! same question. So a pod's class knows its *kin*: the labels under keys that some affinity term, spread constraint,
//! service or controller mentions. When a new key is mentioned, pods are looked at again.

use std::collections::{BTreeMap, BTreeSet};

use crate::collections::Lookup;
use crate::model::ids::slot;
use crate::model::{CompiledLabels, Symbol, Symbols};

slot! {
    /// Pods that no selector can tell apart.
    KinId
}

/// A namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Kin {
    /// The namespace.
    pub namespace: Symbol,
    labels: Box<[(Symbol, Symbol)]>,
}

impl Kin {
    /// The value of a label.
    pub fn label(&self, key: Symbol) -> Option<Symbol> {
        value(&self.labels, key)
    }
}

/// The value of `key` among sorted `labels`.
pub(super) fn value(labels: &[(Symbol, Symbol)], key: Symbol) -> Option<Symbol> {
    labels.binary_search_by_key(&key, |l| l.0).ok().map(|at| labels[at].1)
}

/// All kins that a pod is of.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub struct Kins {
    kins: Vec<Option<(Kin, usize)>>,
    #[serde(skip)]
    index: Lookup<Kin, KinId>,
    free: BTreeSet<usize>,
    /// Keys that a selector mentions, or mentioned.
    keys: BTreeSet<Symbol>,
    /// Whether there was any selector yet: before that all pods are of one kin.
    mentioned: bool,
}

impl Kins {
    /// Takes note of selectors; returns whether pods have to be looked at again.
    pub(super) fn mention<'a>(&mut self, selectors: impl IntoIterator<Item = &'a CompiledLabels>) -> bool {
        let mut news = false;
        for selector in selectors {
            news |= !std::mem::replace(&mut self.mentioned, true);
            for key in selector.keys() {
                news |= self.keys.insert(key);
            }
        }
        news
    }

    /// Whether any selector was ever mentioned.
    pub fn matter(&self) -> bool {
        self.mentioned
    }

    /// The kin of a pod, counted once more.
    pub(super) fn acquire(
        &mut self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        symbols: &mut Symbols,
    ) -> KinId {
        let namespace = symbols.intern(if self.mentioned { namespace } else { "" });
        let mentioned = |key: &str| symbols.get(key).filter(|key| self.keys.contains(key));
        let mut found: Vec<(Symbol, &String)> =
            labels.iter().filter_map(|(key, value)| Some((mentioned(key)?, value))).collect();
        found.sort_unstable_by_key(|l| l.0);
        let labels = found.into_iter().map(|(key, value)| (key, symbols.intern(value))).collect();
        let kin = Kin { namespace, labels };
        if let Some(id) = self.index.get(&kin).copied() {
            self.retain(id);
            return id;
        }
        let at = self.free.pop_first().unwrap_or(self.kins.len());
        let id = KinId::from_index(at);
        let entry = Some((kin.clone(), 1));
        match self.kins.get_mut(at) {
            Some(slot) => *slot = entry,
            None => self.kins.push(entry),
        }
        self.index.insert(kin, id);
        id
    }

    /// One more user.
    pub(super) fn retain(&mut self, id: KinId) {
        if let Some(Some((_, users))) = self.kins.get_mut(id.index()) {
            *users += 1;
        }
    }

    /// One user less; the last one frees it.
    pub(super) fn release(&mut self, id: KinId) {
        let Some(slot) = self.kins.get_mut(id.index()) else { return };
        let Some((kin, users)) = slot else { return };
        *users -= 1;
        if *users == 0 {
            self.index.remove(kin);
            *slot = None;
            self.free.insert(id.index());
        }
    }

    /// A kin.
    ///
    /// # Panics
    /// If no pod is of it any more.
    pub fn get(&self, id: KinId) -> &Kin {
        let kin = self.kins.get(id.index()).and_then(Option::as_ref);
        &kin.expect("a kin lives as long as a pod or class of it").0
    }

    /// Whether each kin, by slot, is one that `matches`. `O(kins)`.
    pub fn matching(&self, matches: impl Fn(&Kin) -> bool) -> Vec<bool> {
        self.kins.iter().map(|kin| kin.as_ref().is_some_and(|(kin, _)| matches(kin))).collect()
    }

    /// After the table was read back.
    pub(super) fn make_index(&mut self) {
        let ids = self.kins.iter().enumerate().map(|(at, kin)| (KinId::from_index(at), kin));
        self.index = ids.filter_map(|(id, kin)| Some((kin.as_ref()?.0.clone(), id))).collect();
    }
}
