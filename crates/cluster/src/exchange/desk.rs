//! What waiting pods are to say: of each pod the newest only, one write at a time, and nothing once its bind is out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gpu_scheduler_engine::Condition;
use gpu_scheduler_engine::model::{PodName, PodUid};
use serde_json::{Value, json};

use super::call::Call;
use super::told::Told;

/// What is to be written on a waiting pod, in one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Say {
    /// The pod's name.
    pub pod: PodName,
    /// Why it waits, with the scheduler name that it calls us by.
    pub condition: Option<(Condition, String)>,
    /// `status.nominatedNodeName`; an inner `None` takes it back.
    pub nomination: Option<Option<Arc<str>>>,
}

impl Say {
    /// The write, with the time (RFC 3339) at which a pod begins to wait.
    pub fn call(&self, uid: &PodUid, now: &str) -> Call {
        let mut status = json!({});
        if let Some((condition, _)) = &self.condition {
            status["conditions"] = json!([unscheduled(condition, now)]);
        }
        if let Some(node) = &self.nomination {
            status["nominatedNodeName"] = json!(node.as_deref());
        }
        Call::status(&self.pod, uid, status)
    }

    /// What is newer counts; what it says nothing of stays to be said.
    fn overlay(&mut self, newer: Self) {
        if let Some((mut condition, profile)) = newer.condition {
            // What it had to say was never said: whether the pod says anything yet is as it was.
            if let Some((before, _)) = &self.condition {
                condition.again = before.again;
            }
            self.condition = Some((condition, profile));
        }
        if newer.nomination.is_some() {
            self.nomination = newer.nomination;
        }
    }
}

/// All that is to be said.
#[derive(Debug, Default)]
pub struct Desk {
    waiting: BTreeMap<PodUid, Say>,
    /// Pods of `waiting`, first come first served. May name pods that have nothing to say any more.
    order: VecDeque<PodUid>,
    /// Pods of which a write is under way.
    writing: BTreeSet<PodUid>,
}

impl Desk {
    /// A pod has something to say.
    pub fn put(&mut self, uid: PodUid, say: Say) {
        match self.waiting.get_mut(&uid) {
            Some(before) => before.overlay(say),
            None => {
                self.order.push_back(uid.clone());
                self.waiting.insert(uid, say);
            }
        }
    }

    /// What is to be written next. Its end must be told by [`written`](Self::written).
    pub fn take_next(&mut self) -> Option<(PodUid, Say)> {
        let mut passes = self.order.len();
        while passes > 0 {
            passes -= 1;
            let uid = self.order.pop_front()?;
            if self.writing.contains(&uid) {
                // One at a time, or an older text might come last.
                self.order.push_back(uid);
                continue;
            }
            let Some(say) = self.waiting.remove(&uid) else { continue };
            self.writing.insert(uid.clone());
            return Some((uid, say));
        }
        None
    }

    /// Whether pods wait for their turn.
    pub fn has_more(&self) -> bool {
        !self.order.is_empty()
    }

    /// The end of a write. What was not taken is said again, unless there is something newer to say.
    pub fn written(&mut self, uid: PodUid, say: Say, told: Told) {
        let again = !told.is_settled();
        #[cfg(feature = "planted-bugs")]
        let again = again && !crate::planted::is_planted(crate::planted::Bug::SaidOnlyOnce);
        if again {
            let mut again = say;
            match self.waiting.remove(&uid) {
                Some(newer) => again.overlay(newer),
                None => self.order.push_back(uid.clone()),
            }
            self.waiting.insert(uid.clone(), again);
        }
        self.writing.remove(&uid);
    }

    /// A pod's bind is to go out: what it has to say is dropped. False while a write of it is under way; its end may leave
    /// something to be said again, so that whoever waits for it asks again.
    pub fn hush(&mut self, uid: &PodUid) -> bool {
        self.waiting.remove(uid);
        !self.writing.contains(uid)
    }

    /// Whether nothing is left to say.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty()
    }
}

/// The condition `PodScheduled=False`.
fn unscheduled(condition: &Condition, now: &str) -> Value {
    let mut json = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": condition.reason.to_string(),
        "message": &*condition.message,
    });
    if condition.generation > 0 {
        json["observedGeneration"] = json!(condition.generation);
    }
    if !condition.again {
        json["lastTransitionTime"] = json!(now);
    }
    json
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_engine::ConditionReason;

    use super::*;

    fn say(message: &str, again: bool) -> Say {
        let condition =
            Condition { reason: ConditionReason::Unschedulable, message: message.into(), again, generation: 0 };
        let pod = PodName { namespace: "d".into(), name: "a".into() };
        Say { pod, condition: Some((condition, "gpu-scheduler".to_owned())), nomination: None }
    }

    fn said(say: &Say) -> (&str, bool) {
        say.condition.as_ref().map(|(c, _)| (&*c.message, c.again)).expect("it has a condition")
    }

    #[test]
    fn the_newest_is_said_once_and_never_beside_an_older_one() {
        let (mut desk, uid) = (Desk::default(), PodUid::from("u"));
        desk.put(uid.clone(), say("old", false));
        let (_, old) = desk.take_next().expect("it is to be said");
        desk.put(uid.clone(), say("new", true));
        assert_eq!(desk.take_next(), None, "the old one is being written");
        // It was not taken: the new one is the first that the pod says.
        desk.written(uid.clone(), old, Told::Unsure);
        let (_, new) = desk.take_next().expect("it is to be said");
        assert_eq!(said(&new), ("new", false));
        desk.written(uid, new, Told::Done);
        assert!(desk.idle());
    }

    #[test]
    fn a_hushed_pod_says_nothing_more() {
        let (mut desk, uid) = (Desk::default(), PodUid::from("u"));
        desk.put(uid.clone(), say("waits", false));
        assert!(desk.hush(&uid));
        assert_eq!(desk.take_next(), None);
        desk.put(uid.clone(), say("waits", false));
        let (_, say) = desk.take_next().expect("it is to be said");
        assert!(!desk.hush(&uid), "its bind waits for the write");
        desk.written(uid.clone(), say, Told::Unsure);
        assert!(desk.hush(&uid), "and takes back what was left to be said again");
        assert_eq!((desk.take_next(), desk.idle()), (None, true));
    }
}
