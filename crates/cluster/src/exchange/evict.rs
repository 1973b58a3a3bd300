//! A pod that has to go: marked as disrupted, deleted, and asked for again until it is gone.

use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_engine::EvictReason;
use gpu_scheduler_engine::model::{PodName, PodUid};
use http::Method;
use serde_json::json;

use super::call::{Call, pod_path};
use super::told::Told;

/// Pause before an eviction without an answer is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// Longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A pod that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod; a precondition of the writes.
    pub uid: PodUid,
    /// Its name.
    pub pod: PodName,
    /// Its node.
    pub node: Arc<str>,
    /// Why.
    pub reason: EvictReason,
    /// Why, with the particulars.
    pub message: String,
    /// The pod that it makes room for.
    pub preemptor: Option<(PodUid, PodName)>,
}

impl Eviction {
    /// The reason of the condition `DisruptionTarget`: Kubernetes' own where it has one.
    fn condition_reason(&self) -> &'static str {
        match self.reason {
            EvictReason::Preempted => "PreemptionByScheduler",
            EvictReason::GpuOvercommitted => "GPUOvercommitted",
        }
    }

    /// Marks the pod as being disrupted, or not any more.
    fn mark(&self, is: bool, message: &str, now: &str) -> Call {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": if is { "True" } else { "False" },
            "reason": self.condition_reason(),
            "message": message,
            "lastTransitionTime": now,
        });
        Call::status(&self.pod, &self.uid, json!({"conditions": [condition]}))
    }

    fn delete(&self) -> Call {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": &*self.uid.0}});
        Call { method: Method::DELETE, path: pod_path(&self.pod), content: "application/json", body }
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionStep {
    /// Send this, and tell what became of it.
    Send {
        /// Whether this is the write that deletes the pod.
        deletes: bool,
        /// The request.
        call: Call,
    },
    /// Wait so long, and begin again.
    Pause(Duration),
    /// It is over.
    End(EvictionEnd),
}

/// How an eviction ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionEnd {
    /// The pod goes, or is gone.
    Goes(Eviction),
    /// The API server refuses it for good, and the engine looks for others that can make room.
    Stays {
        /// The pod.
        uid: PodUid,
        /// Whom it was to make room for.
        preemptor: PodUid,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begins,
    Marking,
    Deleting,
    /// It may not be deleted, and is not marked any more.
    Unmarking,
}

/// An eviction under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicting {
    eviction: Eviction,
    stage: Stage,
    pause: Duration,
}

impl Evicting {
    /// One that begins.
    pub fn new(eviction: Eviction) -> Self {
        Self { eviction, stage: Stage::Begins, pause: AGAIN }
    }

    /// What comes next, after what became of the write before; after a pause and at the beginning that is nothing. `now`
    /// is the time (RFC 3339) of the mark.
    pub fn next(&mut self, told: Option<Told>, now: &str) -> EvictionStep {
        let eviction = &self.eviction;
        let (stage, call) = match (self.stage, told) {
            (Stage::Begins, _) => (Stage::Marking, eviction.mark(true, &eviction.message, now)),
            // The mark is for people: without it the pod goes all the same.
            (Stage::Marking, _) => (Stage::Deleting, eviction.delete()),
            (Stage::Deleting, Some(Told::Done | Told::Gone)) => {
                return EvictionStep::End(EvictionEnd::Goes(eviction.clone()));
            }
            (Stage::Deleting, Some(Told::Refused)) => {
                (Stage::Unmarking, eviction.mark(false, "the API server refuses to delete it", now))
            }
            // Somebody may allow it later, and others may make room meanwhile: the engine looks again.
            (Stage::Unmarking, _) => match &eviction.preemptor {
                Some((preemptor, _)) => {
                    let (uid, preemptor) = (eviction.uid.clone(), preemptor.clone());
                    return EvictionStep::End(EvictionEnd::Stays { uid, preemptor });
                }
                // A card that is held twice stays so until one of both goes.
                None => return self.pause(),
            },
            (Stage::Deleting, Some(Told::Unsure) | None) => return self.pause(),
        };
        self.stage = stage;
        EvictionStep::Send { deletes: stage == Stage::Deleting, call }
    }

    fn pause(&mut self) -> EvictionStep {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        self.stage = Stage::Begins;
        EvictionStep::Pause(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicting(preemptor: bool) -> Evicting {
        let name = |name: &str| PodName { namespace: "d".into(), name: name.into() };
        Evicting::new(Eviction {
            uid: PodUid::from("u"),
            pod: name("a"),
            node: "n1".into(),
            reason: EvictReason::Preempted,
            message: "for b".to_owned(),
            preemptor: preemptor.then(|| (PodUid::from("v"), name("b"))),
        })
    }

    /// The steps after these answers to the deletions, marks being taken.
    fn steps(preemptor: bool, answers: &[Told]) -> Vec<String> {
        let (mut evicting, mut answers, mut steps) = (evicting(preemptor), answers.iter(), Vec::new());
        let mut told = None;
        loop {
            let step = evicting.next(told.take(), "now");
            steps.push(match &step {
                EvictionStep::Send { deletes: true, .. } => match answers.next() {
                    Some(answer) => {
                        told = Some(*answer);
                        "delete".to_owned()
                    }
                    None => return steps,
                },
                EvictionStep::Send { call, .. } => {
                    told = Some(Told::Done);
                    format!("mark {}", call.body["status"]["conditions"][0]["status"].as_str().expect("a status"))
                }
                EvictionStep::Pause(pause) => format!("pause {pause:?}"),
                EvictionStep::End(EvictionEnd::Goes(_)) => "goes".to_owned(),
                EvictionStep::End(EvictionEnd::Stays { .. }) => "stays".to_owned(),
            });
            if matches!(step, EvictionStep::End(_)) {
                return steps;
            }
        }
    }

    #[test]
    fn an_eviction_goes_on_until_the_pod_goes_or_may_stay() {
        use Told::*;
        for (preemptor, answers, expected) in [
            (true, &[Done][..], "mark True, delete, goes"),
            (false, &[Gone], "mark True, delete, goes"),
            (true, &[Refused], "mark True, delete, mark False, stays"),
            (true, &[Unsure, Done], "mark True, delete, pause 500ms, mark True, delete, goes"),
            (
                false,
                &[Refused, Unsure, Done],
                "mark True, delete, mark False, pause 500ms, mark True, delete, pause 1s, mark True, delete, goes",
            ),
        ] {
            assert_eq!(steps(preemptor, answers).join(", "), expected);
        }
    }
}
