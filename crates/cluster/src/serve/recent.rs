//! Answers that are kept for a short while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// A bounded map whose entries expire. Keys come from outside, so the map hashes with a secret seed, and a flood of new
/// keys can only push out what it is full of.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: HashMap<K, (Instant, V)>,
    keep: Duration,
    room: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    pub fn new(keep: Duration, room: usize) -> Self {
        Self { entries: HashMap::new(), keep, room }
    }

    /// What was said of `key`, if that is not too long ago.
    pub fn get(&self, key: &K) -> Option<V> {
        self.entries.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, value)| value.clone())
    }

    /// Keeps an answer. `O(1)`, and `O(room)` when full: then what has expired goes, or else what expires first.
    pub fn put(&mut self, key: K, value: V) {
        let now = Instant::now();
        if self.entries.len() >= self.room && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (until, _)| *until > now);
        }
        if self.entries.len() >= self.room && !self.entries.contains_key(&key) {
            let first = self.entries.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| key.clone());
            first.and_then(|key| self.entries.remove(&key));
        }
        self.entries.insert(key, (now + self.keep, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire() {
        let mut recent = Recent::new(Duration::from_secs(10), 8);
        recent.put("a", 1);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(recent.get(&"a"), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(recent.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_map_forgets_what_expires_first() {
        let mut recent = Recent::new(Duration::from_secs(10), 2);
        for key in ["a", "b", "c"] {
            recent.put(key, ());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!((recent.get(&"a"), recent.get(&"b"), recent.get(&"c")), (None, Some(()), Some(())));
        assert_eq!(recent.entries.len(), 2);
    }
}
