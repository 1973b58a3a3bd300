//! Why a pod waits: kube-scheduler's sentence, then the nearest miss per reason with its numbers.

use std::collections::BTreeMap;

use crate::framework::reason::describe_wish;
use crate::framework::{Evaluation, PreFiltered, Reason, Rejection, ResourceName, Selection};
use crate::ledger::Shortage;
use crate::model::NodeId;
use crate::state::{Class, State};

/// One reason, over all nodes that gave it.
#[derive(Debug, Clone, Default)]
struct Bucket {
    nodes: usize,
    /// The nearest node: what it misses, and what to say of it.
    nearest: Option<(u64, String)>,
    /// Most of the counted thing that any of the nodes has in all, and how much was asked.
    most: Option<(i64, i64)>,
}

/// Reasons counted over nodes.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    nodes: usize,
    buckets: BTreeMap<String, Bucket>,
    no_match: bool,
}

impl Diagnosis {
    /// Counts the evaluations of all nodes, given in slot order, and what a cycle `rejected` beyond them. `O(nodes)`.
    pub fn of<'a>(
        state: &State,
        evaluations: impl Iterator<Item = &'a Evaluation>,
        rejected: &BTreeMap<NodeId, Rejection>,
    ) -> Self
    where
        Evaluation: 'a,
    {
        let mut diagnosis = Self::default();
        let mut evaluations = evaluations;
        for node in state.live_nodes() {
            diagnosis.nodes += 1;
            let kept = match evaluations.next() {
                Some(Evaluation::Rejected(rejection)) => Some(rejection),
                _ => rejected.get(&node.id()),
            };
            for reason in kept.iter().flat_map(|r| &r.reasons) {
                diagnosis.count(state, node.name(), reason);
            }
        }
        diagnosis
    }

    fn count(&mut self, state: &State, node: &str, reason: &Reason) {
        self.no_match |= matches!(reason, Reason::Gpu(Shortage::NoMatch));
        let text = reason.text(state.symbols());
        let bucket = match self.buckets.get_mut(&*text) {
            Some(bucket) => bucket,
            None => self.buckets.entry(text.into_owned()).or_default(),
        };
        bucket.nodes += 1;
        let (asked, all) = match reason {
            Reason::Insufficient { resource: ResourceName::Scalar(_), asked, allocatable, .. } => {
                (*asked, *allocatable)
            }
            Reason::Gpu(Shortage::Cards { asked, total, .. } | Shortage::ShareCards { asked, total, .. }) => {
                (i64::from(*asked), i64::from(*total))
            }
            _ => (0, 0),
        };
        bucket.most = Some(bucket.most.map_or((all, asked), |(most, asked)| (most.max(all), asked)));
        if let Some(missing) = reason.missing()
            && bucket.nearest.as_ref().is_none_or(|(nearest, _)| missing < *nearest)
            && let Some(detail) = reason.detail(state.symbols())
        {
            bucket.nearest = Some((missing, format!("{node}: {detail}")));
        }
    }

    /// The pod's message.
    pub fn message(&self, state: &State, class: &Class, pre: &PreFiltered) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let head = format!("0/{} nodes are available:", self.nodes);
        if let Selection::Reject(reason) = &pre.selection {
            return match reason {
                Reason::Request(error) => format!("{head} invalid GPU request: {error}."),
                other => format!("{head} {}.", other.text(state.symbols())),
            };
        }
        // Sorted as strings, numbers included, as kube-scheduler does.
        let mut counts: Vec<String> = self.buckets.iter().map(|(text, b)| format!("{} {text}", b.nodes)).collect();
        counts.sort();
        let mut message = format!("{head} {}.", counts.join(", "));
        let nearest: Vec<String> = self.buckets.values().filter_map(Bucket::nearest_miss).collect();
        if !nearest.is_empty() {
            message.push_str(&format!(" Nearest: {}.", nearest.join("; ")));
        }
        if self.no_match {
            message.push_str(&unknown_wish(state, class));
        }
        message
    }
}

impl Bucket {
    fn nearest_miss(&self) -> Option<String> {
        let (_, detail) = self.nearest.as_ref()?;
        Some(match self.most {
            Some((most, asked)) if asked > most => format!("{detail} (no node here has more than {most})"),
            _ => detail.clone(),
        })
    }
}

/// Where no card of the cluster is what the pod wants: says so, and what there is.
fn unknown_wish(state: &State, class: &Class) -> String {
    let wanted = state.models().matching(class.spec.pattern);
    let cards = || state.live_nodes().flat_map(|n| n.ledger().cards()).filter(|c| c.present());
    let found = cards().any(|c| wanted.contains(c.model()) && crate::state::pinned(&class.spec.gpu, c));
    if found {
        return String::new();
    }
    let mut models: Vec<&str> = cards().map(|c| state.models().name(c.model())).collect();
    models.sort_unstable();
    models.dedup();
    let known = if models.is_empty() { "none".to_owned() } else { models.join(", ") };
    format!(" No GPU in the cluster matches {}; known models: {known}.", describe_wish(&class.spec.gpu))
}
