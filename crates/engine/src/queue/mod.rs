//! Pods that wait: ready, backing off after a failure, or parked until something changes for them.
//!
//! Order is priority, then age. Parked pods are kept by class, because one answer holds for a whole
//! class: when a node changes so that a parked class would fit there, its first pod is made ready; when
//! that one is placed, the next one is. So a wake-up is a fact, not a guess, and needs no backoff. Backoff
//! is for what failed outside: a refused bind, a Permit plugin that gave up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{ClassId, Millis, PodId, Timestamp};

/// First backoff; it doubles with every failure in a row.
const INITIAL_BACKOFF: Millis = Millis::from_secs(1);
/// Longest backoff.
const MAX_BACKOFF: Millis = Millis::from_secs(10);

/// A pod's place in the order: higher priority first, then older, then earlier arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    priority: Reverse<i32>,
    created_at: Timestamp,
    arrival: u64,
    pub pod: PodId,
}

/// Where a waiting pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// It will be tried.
    Active,
    /// It will be tried at this time.
    Backoff(Timestamp),
    /// It is tried when something changes for its class.
    Unschedulable(ClassId),
    /// It is kept out by PreEnqueue.
    Gated,
    /// It has been placed, and is being bound.
    InFlight,
}

/// What the queue knows of a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Waiting {
    key: Key,
    pub place: Place,
    /// Times that it was tried.
    pub attempts: u32,
    /// Failures in a row that were not for lack of room.
    errors: u32,
    /// The class that it was woken for. If it goes away untried, the next one of that class has its turn.
    woken_for: Option<ClassId>,
    /// When it is tried again even if nothing changes for it.
    retry: Option<Timestamp>,
    /// The text that was last written onto it.
    pub message: Option<Arc<str>>,
}

/// How many pods are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depths {
    /// Ready to be tried.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Parked until something changes for them.
    pub unschedulable: usize,
    /// Kept out by PreEnqueue.
    pub gated: usize,
    /// Placed, and being bound.
    pub in_flight: usize,
}

/// Why a pod came to where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// It appeared.
    Arrival,
    /// It changed.
    Update,
    /// It was tried in vain.
    AttemptFailed,
    /// Its backoff is over.
    BackoffOver,
    /// It was parked for so long that it is tried although nothing changed.
    ParkedForLong,
    /// A node changed so that it would fit there.
    ClusterChange,
}

/// A part of the queue that pods come into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// Ready to be tried.
    Active,
    /// Backing off.
    Backoff,
    /// Parked.
    Unschedulable,
    /// Kept out by PreEnqueue.
    Gated,
}

/// The queue.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Queue {
    pods: BTreeMap<PodId, Waiting>,
    active: BTreeSet<Key>,
    backoff: BTreeSet<(Timestamp, Key)>,
    unschedulable: BTreeMap<ClassId, BTreeSet<Key>>,
    /// When parked pods are tried again although nothing changed for them: what they say grows old.
    retries: BTreeSet<(Timestamp, Key)>,
    arrivals: u64,
    /// How many pods came into each part, and why.
    moves: Vec<((Part, Cause), u64)>,
}

impl Queue {
    /// What is known of a pod that waits or is being bound.
    pub fn get(&self, pod: PodId) -> Option<&Waiting> {
        self.pods.get(&pod)
    }

    pub fn get_mut(&mut self, pod: PodId) -> Option<&mut Waiting> {
        self.pods.get_mut(&pod)
    }

    /// How many pods are where. `O(pods that wait)`: gated ones and those in flight are in no index.
    pub fn depths(&self) -> Depths {
        let of = |place: fn(&Place) -> bool| self.pods.values().filter(|w| place(&w.place)).count();
        Depths {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.values().map(BTreeSet::len).sum(),
            gated: of(|p| matches!(p, Place::Gated)),
            in_flight: of(|p| matches!(p, Place::InFlight)),
        }
    }

    /// How many pods came into each part so far, and why.
    pub fn moves(&self) -> &[((Part, Cause), u64)] {
        &self.moves
    }

    fn count(&mut self, place: Place, cause: Cause) {
        let part = match place {
            Place::Active => Part::Active,
            Place::Backoff(_) => Part::Backoff,
            Place::Unschedulable(_) => Part::Unschedulable,
            Place::Gated => Part::Gated,
            Place::InFlight => return,
        };
        let key = (part, cause);
        match self.moves.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => self.moves[at].1 += 1,
            Err(at) => self.moves.insert(at, (key, 1)),
        }
    }

    /// Takes a pod in, or moves a known one; its age and history stay.
    pub fn put(&mut self, pod: PodId, priority: i32, created_at: Timestamp, place: Place) {
        if place != Place::Active {
            self.pass_turn(pod);
        }
        let retry = self.pods.get(&pod).filter(|w| w.place == place).and_then(|w| w.retry);
        let arrival = self.arrivals;
        match self.pods.get(&pod).map(|w| w.place) {
            Some(before) => {
                self.unlink(pod);
                if before != place {
                    self.count(place, Cause::Update);
                }
            }
            None => {
                self.arrivals += 1;
                self.count(place, Cause::Arrival);
            }
        }
        let waiting = self.pods.entry(pod).or_insert_with(|| Waiting {
            key: Key { priority: Reverse(priority), created_at, arrival, pod },
            place,
            attempts: 0,
            errors: 0,
            woken_for: None,
            retry: None,
            message: None,
        });
        waiting.key.priority = Reverse(priority);
        if let Some(until) = retry {
            waiting.retry = retry;
            self.retries.insert((until, waiting.key));
        }
        self.link(pod, place);
    }

    /// Moves a known pod.
    pub fn move_to(&mut self, pod: PodId, place: Place) {
        if self.pods.contains_key(&pod) {
            self.unlink(pod);
            self.link(pod, place);
        }
        // It was tried: whether the next one of its class is worth a try is up to how that ended.
        if let Some(waiting) = self.pods.get_mut(&pod).filter(|_| place != Place::Active) {
            waiting.woken_for = None;
        }
    }

    /// A pod that was woken will not be tried as what it was: wakes the next one of that class.
    pub fn pass_turn(&mut self, pod: PodId) {
        let class = self.pods.get_mut(&pod).and_then(|waiting| waiting.woken_for.take());
        if let Some(class) = class {
            self.wake(class);
        }
    }

    /// Backs a known pod off, longer with every failure in a row.
    pub fn back_off(&mut self, pod: PodId, now: Timestamp) {
        let Some(waiting) = self.pods.get_mut(&pod) else { return };
        waiting.errors = waiting.errors.saturating_add(1);
        let factor = 1_u64 << (waiting.errors - 1).min(16);
        let wait = Millis(INITIAL_BACKOFF.0.saturating_mul(factor)).min(MAX_BACKOFF);
        self.move_to(pod, Place::Backoff(now + wait));
        self.count(Place::Backoff(now), Cause::AttemptFailed);
    }

    /// Forgets a pod.
    pub fn remove(&mut self, pod: PodId) {
        self.pass_turn(pod);
        self.unlink(pod);
        self.pods.remove(&pod);
    }

    /// Parks a known pod until something changes for its class, or until `retry`.
    pub fn park(&mut self, pod: PodId, class: ClassId, retry: Option<Timestamp>) {
        self.move_to(pod, Place::Unschedulable(class));
        self.count(Place::Unschedulable(class), Cause::AttemptFailed);
        if let (Some(until), Some(waiting)) = (retry, self.pods.get_mut(&pod)) {
            waiting.retry = Some(until);
            self.retries.insert((until, waiting.key));
        }
    }

    /// Makes pods ready that have been parked for long, or whose backoff is over.
    pub fn end_waits(&mut self, now: Timestamp) {
        while let Some((until, key)) = self.retries.first().copied() {
            if until > now {
                break;
            }
            self.move_to(key.pod, Place::Active);
            self.count(Place::Active, Cause::ParkedForLong);
        }
        while let Some((until, key)) = self.backoff.first().copied() {
            if until > now {
                break;
            }
            self.move_to(key.pod, Place::Active);
            self.count(Place::Active, Cause::BackoffOver);
        }
    }

    /// When the next backoff or parking ends.
    pub fn next_wait(&self) -> Option<Timestamp> {
        let first = |waits: &BTreeSet<(Timestamp, Key)>| waits.first().map(|(until, _)| *until);
        [first(&self.backoff), first(&self.retries)].into_iter().flatten().min()
    }

    /// The pod to try next.
    pub fn head(&self) -> Option<PodId> {
        self.active.first().map(|key| key.pod)
    }

    /// Classes with parked pods, from `from` on.
    pub fn parked_classes(&self, from: Option<ClassId>) -> impl Iterator<Item = ClassId> + '_ {
        self.unschedulable.range(from.unwrap_or(ClassId(0))..).map(|(class, _)| *class)
    }

    /// The parked pods of a class, the first to be tried first.
    pub fn parked(&self, class: ClassId) -> impl Iterator<Item = PodId> {
        self.unschedulable.get(&class).into_iter().flatten().map(|key| key.pod)
    }

    /// Makes a parked pod ready.
    pub fn wake_pod(&mut self, pod: PodId) {
        if let Some(Place::Unschedulable(_)) = self.pods.get(&pod).map(|w| w.place) {
            self.move_to(pod, Place::Active);
            self.count(Place::Active, Cause::ClusterChange);
        }
    }

    /// Makes the first parked pod of a class ready.
    pub fn wake(&mut self, class: ClassId) {
        let first = self.unschedulable.get(&class).and_then(|keys| keys.first()).copied();
        if let Some(key) = first {
            self.move_to(key.pod, Place::Active);
            self.count(Place::Active, Cause::ClusterChange);
            if let Some(waiting) = self.pods.get_mut(&key.pod) {
                waiting.woken_for = Some(class);
            }
        }
    }

    fn link(&mut self, pod: PodId, place: Place) {
        let Some(waiting) = self.pods.get_mut(&pod) else { return };
        waiting.place = place;
        let key = waiting.key;
        match place {
            Place::Active => {
                self.active.insert(key);
            }
            Place::Backoff(until) => {
                self.backoff.insert((until, key));
            }
            Place::Unschedulable(class) => {
                self.unschedulable.entry(class).or_default().insert(key);
            }
            Place::Gated | Place::InFlight => {}
        }
    }

    fn unlink(&mut self, pod: PodId) {
        let Some(waiting) = self.pods.get_mut(&pod) else { return };
        if let Some(until) = waiting.retry.take() {
            self.retries.remove(&(until, waiting.key));
        }
        match waiting.place {
            Place::Active => {
                self.active.remove(&waiting.key);
            }
            Place::Backoff(until) => {
                self.backoff.remove(&(until, waiting.key));
            }
            Place::Unschedulable(class) => {
                if let Some(keys) = self.unschedulable.get_mut(&class) {
                    keys.remove(&waiting.key);
                    if keys.is_empty() {
                        self.unschedulable.remove(&class);
                    }
                }
            }
            Place::Gated | Place::InFlight => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(n: u32) -> PodId {
        PodId(n)
    }

    #[test]
    fn priority_then_age_then_arrival() {
        let mut queue = Queue::default();
        for (n, priority, created) in [(0, 0, 5), (1, 0, 3), (2, 9, 7), (3, 0, 3)] {
            queue.put(pod(n), priority, Timestamp(created), Place::Active);
        }
        let mut order = Vec::new();
        while let Some(head) = queue.head() {
            order.push(head.0);
            queue.remove(head);
        }
        assert_eq!(order, [2, 1, 3, 0]);
    }

    #[test]
    fn backoff_doubles_up_to_ten_seconds() {
        let mut queue = Queue::default();
        queue.put(pod(0), 0, Timestamp(0), Place::Active);
        let mut waits = Vec::new();
        for _ in 0..6 {
            queue.back_off(pod(0), Timestamp(0));
            waits.push(queue.next_wait().map_or(0, |t| t.0));
        }
        assert_eq!(waits, [1000, 2000, 4000, 8000, 10_000, 10_000]);
        queue.end_waits(Timestamp(9_999));
        assert_eq!(queue.head(), None);
        queue.end_waits(Timestamp(10_000));
        assert_eq!(queue.head(), Some(pod(0)));
    }

    #[test]
    fn a_class_wakes_one_by_one() {
        let mut queue = Queue::default();
        let class = ClassId(4);
        for n in 0..3 {
            queue.put(pod(n), 0, Timestamp(u64::from(n)), Place::Unschedulable(class));
        }
        queue.wake(class);
        assert_eq!((queue.head(), queue.parked_classes(None).count()), (Some(pod(0)), 1));
        queue.remove(pod(0));
        queue.wake(class);
        queue.wake(class);
        assert_eq!((queue.head(), queue.parked_classes(None).count()), (Some(pod(1)), 0));
    }
}
