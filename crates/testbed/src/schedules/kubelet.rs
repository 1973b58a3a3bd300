//! A model of kubelets: they admit pods that are bound to their node, and stop those that are deleted.

use serde_json::Value;

use super::api::{Written, is_terminating, name, node_of, uid};
use super::clock::rfc3339;
use super::plan::{Kind, Moment};
use super::sim::{Happening, Sim};

/// Pause before a kubelet that hangs is asked again.
const AGAIN: Moment = 500;

/// What a kubelet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// It admits a pod and starts it.
    Admit,
    /// It stops a pod.
    Stop,
}

impl Sim {
    /// A pod was written: its kubelet has something to do.
    pub fn kubelet_sees(&mut self, written: &Written) {
        let pod = &written.object.value;
        if written.deleted || node_of(pod).is_none() {
            return;
        }
        let does = match (is_terminating(pod), pod["status"]["startTime"].is_string()) {
            (true, _) => Does::Stop,
            (false, false) => Does::Admit,
            (false, true) => return,
        };
        let pause = match does {
            Does::Admit => 20 + self.chance.below(500) as Moment,
            Does::Stop => 50 + self.chance.below(900) as Moment,
        };
        self.plan_kubelet(name(pod).to_owned(), uid(pod).to_owned(), does, pause);
    }

    /// A kubelet is back with its node: it looks after all pods that are bound to it.
    pub fn kubelet_returns(&mut self, node: &str) {
        let here: Vec<_> = self.api.all(Kind::Pods).filter(|pod| node_of(&pod.value) == Some(node)).cloned().collect();
        for object in here {
            self.kubelet_sees(&Written { kind: Kind::Pods, object, deleted: false });
        }
    }

    fn plan_kubelet(&mut self, pod: String, uid: String, does: Does, pause: Moment) {
        if self.kubelet_jobs.insert((uid.clone(), does)) {
            self.at(self.now.after(pause), Happening::Kubelet(pod, uid, does));
        }
    }

    /// A kubelet does it.
    pub fn kubelet_does(&mut self, pod: String, of: String, does: Does) {
        self.kubelet_jobs.remove(&(of.clone(), does));
        let Some(object) = self.api.get(Kind::Pods, &pod).filter(|object| uid(&object.value) == of) else { return };
        let node = node_of(&object.value).unwrap_or_default().to_owned();
        let terminating = is_terminating(&object.value);
        if self.api.get(Kind::Nodes, &node).is_none() {
            return; // there is no kubelet
        }
        if self.kubelet_hangs(&node) {
            return self.plan_kubelet(pod, of, does, AGAIN);
        }
        match does {
            Does::Stop => self.api.remove(Kind::Pods, &pod),
            // One that was deleted before it started is not started any more.
            Does::Admit if terminating => {}
            Does::Admit => {
                let started = rfc3339(self.now);
                self.api.change(Kind::Pods, &pod, |pod| {
                    pod["status"]["startTime"] = started.as_str().into();
                    pod["status"]["phase"] = "Running".into();
                });
            }
        }
    }
}

/// Whether a pod runs.
pub fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}
