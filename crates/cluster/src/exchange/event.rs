//! Events about pods, and those of them that have not been written yet.

use std::collections::{BTreeMap, VecDeque};

use gpu_scheduler_engine::model::{PodName, PodUid};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::call::Call;
use super::evict::Eviction;

/// Longest note, as kube-scheduler cuts it.
const LONGEST_NOTE: usize = 1024;
/// Events that may wait one by one. Beyond that the oldest of a kind become one event with a count.
const MOST: usize = 20_000;
/// How often an event is written at most, as client-go's recorder does it.
const TRIES: u8 = 12;

/// An event about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDraft {
    /// The pod.
    pub uid: PodUid,
    /// Its name.
    pub pod: PodName,
    /// Whether it is of type `Warning`, else `Normal`.
    pub warning: bool,
    /// Why, in one word.
    pub reason: String,
    /// What was done, or tried.
    pub action: &'static str,
    /// The text; what is beyond 1,024 bytes is cut off.
    pub note: String,
    /// Another pod that it is about.
    pub related: Option<(PodUid, PodName)>,
    /// The scheduler name that the pod calls us by.
    pub profile: String,
}

impl From<Eviction> for EventDraft {
    /// What is told of an eviction, as kube-scheduler words preemption.
    fn from(eviction: Eviction) -> Self {
        let profile = String::from("gpu-scheduler");
        let reason = eviction.reason.to_string();
        match eviction.preemptor {
            Some((uid, name)) => Self {
                uid: eviction.uid,
                pod: eviction.pod,
                warning: false,
                reason,
                action: "Preempting",
                note: format!("Preempted by pod {uid} on node {}", eviction.node),
                related: Some((uid, name)),
                profile,
            },
            None => Self {
                uid: eviction.uid,
                pod: eviction.pod,
                warning: true,
                reason,
                action: "Evicting",
                note: eviction.message,
                related: None,
                profile,
            },
        }
    }
}

/// An event that happened, and how many others of its kind it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    draft: EventDraft,
    at: Timestamp,
    /// Itself included.
    count: u32,
    /// How often it was written in vain.
    tries: u8,
}

impl Event {
    /// The write, told by `instance`. Sent twice it makes one event: the name is that of the moment when it happened.
    pub fn call(&self, instance: &str) -> Call {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.draft.pod.namespace);
        Call { method: Method::POST, path, content: "application/json", body: self.body(instance) }
    }

    fn body(&self, instance: &str) -> Value {
        let EventDraft { uid, pod, warning, reason, action, note, related, profile } = &self.draft;
        let note = match self.count {
            1 => note.clone(),
            count => format!(
                "{note} ({} events of this kind before it are in this one: they came faster than they could be written)",
                count - 1
            ),
        };
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:x}", pod.name, self.at.as_nanosecond()),
                "namespace": &*pod.namespace,
            },
            "eventTime": format!("{:.6}", self.at),
            "type": if *warning { "Warning" } else { "Normal" },
            "reason": reason,
            "action": action,
            "note": cut(&note),
            "regarding": reference(uid, pod),
            "reportingController": profile,
            "reportingInstance": instance,
        });
        if self.count > 1 {
            body["series"] = json!({"count": self.count, "lastObservedTime": format!("{:.6}", self.at)});
        }
        if let Some((uid, pod)) = related {
            body["related"] = reference(uid, pod);
        }
        body
    }

    /// What makes events of one kind.
    fn kind(&self) -> Kind {
        (self.draft.pod.namespace.to_string(), self.draft.reason.clone(), self.draft.profile.clone())
    }
}

/// Namespace, reason, and the scheduler name.
type Kind = (String, String, String);

/// Events that wait to be written, first come first served. None is lost: beyond a number, the oldest are put together.
#[derive(Debug)]
pub struct Events {
    waiting: VecDeque<Event>,
    /// The newest of those that were put together, with their count.
    together: BTreeMap<Kind, Event>,
    most: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), together: BTreeMap::new(), most: MOST }
    }
}

impl Events {
    /// One happened.
    pub fn push(&mut self, draft: EventDraft, at: Timestamp) {
        self.waiting.push_back(Event { draft, at, count: 1, tries: 0 });
        if self.waiting.len() > self.most
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.put_together(oldest);
        }
    }

    /// The next to be written: those that were put together come last, and go on counting until then.
    pub fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front().or_else(|| Some(self.together.pop_first()?.1))
    }

    /// One that could not be written comes back, behind the others: what is not taken now may be what is never taken. False if
    /// it was written in vain too often.
    #[must_use]
    pub fn push_back(&mut self, mut event: Event) -> bool {
        event.tries += 1;
        if event.tries >= TRIES {
            return false;
        }
        match event.count {
            1 if self.waiting.len() < self.most => self.waiting.push_back(event),
            _ => self.put_together(event),
        }
        true
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.together.is_empty()
    }

    fn put_together(&mut self, mut event: Event) {
        let kind = event.kind();
        if let Some(before) = self.together.remove(&kind) {
            let count = event.count.saturating_add(before.count);
            event = if before.at > event.at { before } else { event };
            event.count = count;
        }
        self.together.insert(kind, event);
    }
}

/// A pod as an event refers to it.
fn reference(uid: &PodUid, pod: &PodName) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "namespace": &*pod.namespace, "name": &*pod.name, "uid": &*uid.0})
}

/// As kube-scheduler cuts notes: at most 1,024 bytes, with ` ...` at the end where something is missing.
fn cut(note: &str) -> String {
    const MARK: &str = " ...";
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let end = note.floor_char_boundary(LONGEST_NOTE - MARK.len());
    format!("{}{MARK}", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_at_a_character() {
        assert_eq!(cut("short"), "short");
        let cut_note = cut(&"ä".repeat(600));
        assert_eq!(cut_note.len(), 1024);
        assert!(cut_note.ends_with("ä ..."));
    }

    fn draft(pod: &str, reason: &str) -> EventDraft {
        EventDraft {
            uid: PodUid::from(pod),
            pod: PodName { namespace: "default".into(), name: pod.into() },
            warning: false,
            reason: reason.to_owned(),
            action: "Binding",
            note: format!("{reason} {pod}"),
            related: None,
            profile: "gpu-scheduler".to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// What is written, in order: the pod and how many events it stands for.
    fn written(events: &mut Events) -> Vec<(String, u32)> {
        std::iter::from_fn(|| events.pop()).map(|event| (event.draft.pod.name.to_string(), event.count)).collect()
    }

    #[test]
    fn beyond_what_may_wait_the_oldest_of_a_kind_become_one_and_none_is_lost() {
        let mut events = Events { most: 2, ..Events::default() };
        for (second, (pod, reason)) in
            [("a", "Scheduled"), ("b", "Scheduled"), ("c", "Preempted"), ("d", "Scheduled"), ("e", "Scheduled")]
                .into_iter()
                .enumerate()
        {
            events.push(draft(pod, reason), at(i64::try_from(second).expect("few")));
        }
        let of = |pod: &str, count| (pod.to_owned(), count);
        assert_eq!(written(&mut events), [of("d", 1), of("e", 1), of("c", 1), of("b", 2)]);
        assert!(events.is_empty());
    }

    #[test]
    fn what_was_not_taken_comes_again_under_its_own_name_and_not_for_ever() {
        let mut events = Events::default();
        events.push(draft("a", "Scheduled"), at(1));
        events.push(draft("b", "Scheduled"), at(2));
        let first = events.pop().expect("one waits");
        let body = first.body("us");
        assert!(events.push_back(first));
        let next = events.pop().map(|event| event.draft.pod.name.to_string());
        assert_eq!(next.as_deref(), Some("b"), "it holds up nobody");
        let mut again = events.pop().expect("it is there again");
        assert_eq!(again.body("us"), body);
        let mut tries = 2;
        while events.push_back(again) {
            again = events.pop().expect("it is there again");
            tries += 1;
        }
        assert_eq!((tries, events.is_empty()), (TRIES, true));
        assert_eq!(body["metadata"]["name"], "a.3b9aca00");
        assert_eq!(body.get("series"), None);
    }

    #[test]
    fn one_for_many_says_for_how_many() {
        let mut events = Events { most: 0, ..Events::default() };
        events.push(draft("a", "Scheduled"), at(1));
        events.push(draft("b", "Scheduled"), at(2));
        let event = events.pop().expect("both are one");
        assert!(events.push_back(event));
        let body = events.pop().expect("it came back").body("us");
        assert_eq!(body["series"]["count"], 2);
        assert_eq!(
            body["note"],
            "Scheduled b (1 events of this kind before it are in this one: they came faster than they could be written)"
        );
        assert!(events.is_empty());
    }
}
