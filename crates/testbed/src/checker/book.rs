//! What the checker knows: every pod of ours as last seen, who holds which card, and what went wrong so far.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::record::{Hold, holds_of};
use super::{Rules, Violation, finished};
use crate::deploy::RECORD;
use crate::objects::node_of;

/// A pod as last seen.
#[derive(Debug, Clone, Default)]
struct Known {
    name: String,
    node: Option<String>,
    record: Option<String>,
    settled: bool,
}

/// Everything that was seen. Time is an argument.
#[derive(Debug)]
pub(crate) struct Book {
    rules: Rules,
    /// By UID.
    pods: BTreeMap<String, Known>,
    /// Who holds which card: by UUID, then by UID. Only pods on a node hold anything.
    cards: BTreeMap<String, BTreeMap<String, Hold>>,
    /// The cards of a pod, by its UID.
    held: BTreeMap<String, Vec<String>>,
    /// Cards that are held wrongly, and since when.
    over: BTreeMap<String, (Instant, Violation)>,
    violations: BTreeSet<Violation>,
    bound: BTreeSet<String>,
    /// The pods of a list that is not complete yet. They come in no order, so that what one of them says may contradict
    /// what was known of another; the complete list does not.
    listing: Option<BTreeMap<String, Pod>>,
    version: u64,
}

impl Book {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            pods: BTreeMap::new(),
            cards: BTreeMap::new(),
            held: BTreeMap::new(),
            over: BTreeMap::new(),
            violations: BTreeSet::new(),
            bound: BTreeSet::new(),
            listing: None,
            version: 0,
        }
    }

    /// Takes note of what the watch says.
    pub fn take(&mut self, now: Instant, event: Event<Pod>) {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitApply(pod) => {
                self.listing.get_or_insert_default().insert(pod.uid().unwrap_or_default(), pod);
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                // Who went or ended unseen comes first: others may have what they held.
                let gone: Vec<String> = self.pods.keys().filter(|uid| !listed.contains_key(*uid)).cloned().collect();
                for uid in gone {
                    self.lost(now, &uid);
                }
                let mut listed: Vec<Pod> = listed.into_values().collect();
                listed.sort_by_key(|pod| (!finished(pod), version(pod)));
                for pod in listed {
                    self.saw(now, &pod);
                }
            }
            Event::Apply(pod) => self.saw(now, &pod),
            Event::Delete(pod) => {
                self.version = self.version.max(version(&pod));
                self.lost(now, &pod.uid().unwrap_or_default());
            }
        }
    }

    /// The newest version of any pod that was seen.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Pods that were bound at some time.
    pub fn bound(&self) -> usize {
        self.bound.len()
    }

    /// Whether every pod is bound or says why not, and no card is held wrongly.
    pub fn at_rest(&self) -> bool {
        self.over.is_empty() && self.pods.values().all(|pod| pod.settled)
    }

    /// All that went wrong up to now.
    pub fn violations(&mut self, now: Instant) -> BTreeSet<Violation> {
        let late: Vec<Violation> = self.over.values().filter_map(|over| self.overdue(now, over)).collect();
        self.violations.extend(late);
        self.violations.clone()
    }

    /// Something went wrong that no pod shows.
    pub fn note(&mut self, violation: Violation) {
        self.violations.insert(violation);
    }

    fn saw(&mut self, now: Instant, pod: &Pod) {
        self.version = self.version.max(version(pod));
        if !self.rules.ours(pod) {
            return;
        }
        let uid = pod.uid().unwrap_or_default();
        if finished(pod) {
            return self.lost(now, &uid);
        }
        let known = Known {
            name: pod.name_any(),
            node: node_of(pod).map(ToOwned::to_owned),
            record: pod.annotations().get(RECORD).cloned(),
            settled: !self.rules.is_unsettled(pod),
        };
        if let Some(before) = self.pods.get(&uid) {
            self.violations.extend(changes(before, &known));
        }
        let holds = match known.record.as_deref().map(|record| holds_of(pod, record)) {
            Some(Ok(holds)) => holds,
            Some(Err(why)) => {
                self.violations.insert(Violation::BrokenRecord { pod: known.name.clone(), why });
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        };
        match &known.node {
            None if known.record.is_some() => {
                self.violations.insert(Violation::RecordWithoutNode { pod: known.name.clone() });
            }
            Some(_) if holds.is_empty() && asks_gpu(pod) => {
                self.violations.insert(Violation::BoundWithoutRecord { pod: known.name.clone() });
            }
            _ => {}
        }
        let holds = if known.node.is_some() { holds } else { BTreeMap::new() };
        if known.node.is_some() {
            self.bound.insert(uid.clone());
        }
        self.pods.insert(uid.clone(), known);
        self.holds(now, &uid, holds);
    }

    fn lost(&mut self, now: Instant, uid: &str) {
        self.holds(now, uid, BTreeMap::new());
        self.held.remove(uid);
        self.pods.remove(uid);
    }

    /// From now on a pod holds this and nothing else.
    fn holds(&mut self, now: Instant, uid: &str, holds: BTreeMap<String, Hold>) {
        let mut touched: BTreeSet<String> = self.held.remove(uid).into_iter().flatten().collect();
        for card in &touched {
            self.cards.entry(card.clone()).or_default().remove(uid);
        }
        touched.extend(holds.keys().cloned());
        self.held.insert(uid.to_owned(), holds.keys().cloned().collect());
        for (card, hold) in holds {
            self.cards.entry(card).or_default().insert(uid.to_owned(), hold);
        }
        for card in touched {
            self.weigh(now, &card);
        }
    }

    /// Looks whether a card is held wrongly, and since when.
    fn weigh(&mut self, now: Instant, card: &str) {
        let wrong = self.wrong(card);
        let before = self.over.remove(card);
        let Some(violation) = wrong else {
            // What lasted too long counts after it has ended, too.
            self.violations.extend(before.and_then(|over| self.overdue(now, &over)));
            return;
        };
        let over = (before.map_or(now, |(since, _)| since), violation);
        if self.rules.tolerance.is_zero() {
            self.violations.insert(over.1.clone());
        }
        self.over.insert(card.to_owned(), over);
    }

    fn wrong(&self, card: &str) -> Option<Violation> {
        let holders = self.cards.get(card)?;
        let memory = holders.values().map(|h| h.memory).sum();
        let compute = holders.values().map(|h| h.compute).sum();
        let shared = holders.len() > 1 && holders.values().any(|h| h.whole);
        let name = |uid: &str| self.pods.get(uid).map_or_else(|| uid.to_owned(), |pod| pod.name.clone());
        let names = holders.keys().map(|uid| name(uid)).collect();
        let (card, lasted) = (card.to_owned(), std::time::Duration::ZERO);
        if shared {
            Some(Violation::WholeCardShared { card, holders: names, lasted })
        } else if memory > self.rules.card_memory || compute > 100 {
            Some(Violation::OverCapacity { card, memory, compute, holders: names, lasted })
        } else {
            let (slice, [first, second]) = twice(holders)?;
            Some(Violation::SliceTwice { slice, holders: [name(first), name(second)].into(), lasted })
        }
    }

    /// A card that is held wrongly for longer than is tolerated.
    fn overdue(&self, now: Instant, (since, violation): &(Instant, Violation)) -> Option<Violation> {
        let long = now - *since;
        // Where nothing is tolerated, it was noted at once.
        if self.rules.tolerance.is_zero() || long <= self.rules.tolerance {
            return None;
        }
        let mut violation = violation.clone();
        if let Violation::OverCapacity { lasted, .. }
        | Violation::WholeCardShared { lasted, .. }
        | Violation::SliceTwice { lasted, .. } = &mut violation
        {
            *lasted = long;
        }
        Some(violation)
    }
}

/// A slice that two pods hold, and who they are.
fn twice(holders: &BTreeMap<String, Hold>) -> Option<(String, [&str; 2])> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let held = holders.iter().flat_map(|(uid, hold)| hold.slices.iter().map(move |slice| (uid, slice)));
    for (uid, slice) in held {
        if let Some(first) = seen.insert(slice, uid) {
            return Some((slice.clone(), [first, uid]));
        }
    }
    None
}

/// What may not change from one sight of a pod to the next.
fn changes(before: &Known, now: &Known) -> Option<Violation> {
    let pod = now.name.clone();
    match (&before.node, &now.node) {
        (Some(first), Some(then)) if first != then => {
            Some(Violation::BoundTwice { pod, first: first.clone(), then: then.clone() })
        }
        (Some(node), None) => Some(Violation::Unbound { pod, node: node.clone() }),
        (Some(_), Some(_)) if before.record != now.record => {
            let text = |record: &Option<String>| record.clone().unwrap_or_default();
            Some(Violation::RecordRewritten { pod, first: text(&before.record), then: text(&now.record) })
        }
        _ => None,
    }
}

/// Resource versions are numbers that grow (KEP-5504).
pub(super) fn version(pod: &Pod) -> u64 {
    pod.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn asks_gpu(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    containers.filter_map(|c| c.resources.as_ref()?.limits.as_ref()).any(|limits| {
        limits.keys().any(|k| k == "nvidia.com/gpu" || k == "gpu-scheduler/memory" || k.starts_with("nvidia.com/mig-"))
    })
}
