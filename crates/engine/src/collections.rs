//! A hash map that cannot be iterated.
//!
//! The engine may look things up by hash, but may never let a hash decide an order. [`Lookup`] makes
//! the second impossible: it offers no iteration at all. Anything whose order matters lives in a
//! `Vec`, a slot table or a `BTreeMap`.

#![allow(clippy::disallowed_types, reason = "the one place that wraps the map which others must not use")]

use std::borrow::Borrow;
use std::hash::Hash;

/// A map from `K` to `V` for look-ups only: `O(1)`, unseeded, without iteration.
#[derive(Debug, Clone)]
pub struct Lookup<K, V>(rustc_hash::FxHashMap<K, V>);

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Self(rustc_hash::FxHashMap::default())
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for Lookup<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl<K: Eq + Hash, V> Lookup<K, V> {
    /// The value at `key`.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Stores `value` at `key` and returns what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes and returns the value at `key`.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }
}

/// A map written down as a list of pairs: JSON takes only texts and numbers for keys. For `#[serde(with = …)]`.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
