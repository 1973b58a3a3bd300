//! Whoever else writes: users that create and delete pods and nodes, the collector of orphaned pods, and another scheduler.

use serde_json::Value;

use super::api::{delete_pod, is_terminating, node_of};
use super::objects;
use super::plan::{Fault, Kind, Moment, NodePlan, PodPlan};
use super::sim::{Happening, Own, Sim};
use super::watch::Step;
use crate::builders::GPU;

/// How long pods of a node that is gone stay.
const ORPHANED: Moment = 5_000;
/// How often another scheduler looks again.
const OTHER_AGAIN: Moment = 3_000;

impl Sim {
    /// All that is there from the beginning.
    pub fn create_cluster(&mut self) {
        for node in self.plan.nodes.clone() {
            self.create_node(&node);
        }
        for group in self.plan.groups.clone() {
            self.api.put(Kind::Groups, &group.name, objects::group(&group));
        }
    }

    fn create_node(&mut self, plan: &NodePlan) {
        let uid = self.new_uid(&plan.name);
        self.api.put(Kind::Nodes, &plan.name, objects::node(plan, &uid));
        self.plan_report(&plan.name, 1_500);
        self.kubelet_returns(&plan.name);
    }

    /// Creates a pod.
    pub fn create_pod(&mut self, plan: &PodPlan) {
        // Names are free again only when their pods are gone.
        if self.api.get(Kind::Pods, &plan.name).is_some() {
            return;
        }
        let uid = self.new_uid(&plan.name);
        self.api.put(Kind::Pods, &plan.name, objects::pod(plan, &uid, self.now));
        if plan.foreign {
            let pause = 50 + self.chance.below(2_000) as Moment;
            self.at(self.now.after(pause), Happening::OtherScheduler(plan.name.clone()));
        }
    }

    fn new_uid(&mut self, name: &str) -> String {
        self.created += 1;
        format!("{name}-{}", self.created)
    }

    /// Another scheduler looks at a pod of its own: it counts cards and knows nothing of shares.
    pub fn other_scheduler(&mut self, pod: &str) {
        let Some(object) = self.api.get(Kind::Pods, pod) else { return };
        if node_of(&object.value).is_some() || is_terminating(&object.value) {
            return;
        }
        let fits: Vec<String> = self
            .api
            .all(Kind::Nodes)
            .map(|node| &node.value)
            .filter(|node| node["spec"]["unschedulable"] != true && self.free_cards(node) >= 1)
            .map(|node| super::api::name(node).to_owned())
            .collect();
        if fits.is_empty() {
            return self.at(self.now.after(OTHER_AGAIN), Happening::OtherScheduler(pod.to_owned()));
        }
        let node = fits[self.chance.below(fits.len())].clone();
        self.note(|| format!("another scheduler binds {pod} to {node}"));
        self.api.change(Kind::Pods, pod, |pod| pod["spec"]["nodeName"] = node.as_str().into());
    }

    fn free_cards(&self, node: &Value) -> i64 {
        let count = |amounts: &Value| amounts[GPU].as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let here = |pod: &&Value| node_of(pod) == node["metadata"]["name"].as_str();
        let pods = self.api.all(Kind::Pods).map(|object| &object.value).filter(here);
        let containers = pods.flat_map(|pod| pod["spec"]["containers"].as_array().into_iter().flatten());
        let used: i64 = containers.map(|container| count(&container["resources"]["limits"])).sum();
        count(&node["status"]["allocatable"]) - used
    }

    /// A fault begins.
    pub fn fault_begins(&mut self, number: usize) {
        match &self.plan.faults[number].what.clone() {
            Fault::Outage => Kind::ALL.into_iter().for_each(|kind| self.everywhere(kind, &Step::Cut)),
            Fault::Cut(kind) => self.everywhere(*kind, &Step::Cut),
            Fault::Expired(kind) => self.everywhere(*kind, &Step::Expired),
            Fault::Compacted => self.api.compact(),
            Fault::Killed(replica) => self.kill(*replica),
            Fault::Frozen => self.freeze_leader(number),
            Fault::FrozenAtBind => self.freezes_at_bind = Some(number),
            Fault::Deleted(pod) => delete_pod(&mut self.api, self.now, pod),
            Fault::Replaced(pod) => {
                delete_pod(&mut self.api, self.now, pod);
                self.at(self.now.after(1), Happening::Again(pod.clone()));
            }
            Fault::Finished(pod) => self.api.change(Kind::Pods, pod, |pod| {
                if super::kubelet::runs(pod) {
                    pod["status"]["phase"] = "Succeeded".into();
                }
            }),
            Fault::Cordoned(node) => {
                self.api.change(Kind::Nodes, node, |node| node["spec"]["unschedulable"] = true.into());
            }
            Fault::NodeGone(node) => {
                self.remove_node(node);
                self.at(self.now.after(ORPHANED), Happening::Orphans(node.clone()));
            }
            Fault::NodeReplaced(node) => self.remove_node(node),
            Fault::Sick(node, _) => self.plan_report(node, 50),
            Fault::Unreported(node) => self.api.remove(Kind::Reports, node),
            Fault::Answers { .. } | Fault::Slow(_) | Fault::Lag(..) | Fault::KubeletHangs(_) => {}
        }
    }

    /// A fault has ended.
    pub fn fault_ends(&mut self, number: usize) {
        match self.plan.faults[number].what.clone() {
            Fault::Killed(replica) => self.start(replica),
            Fault::Frozen | Fault::FrozenAtBind => self.thaw(number),
            Fault::Cordoned(node) => {
                self.api.change(Kind::Nodes, &node, |node| node["spec"]["unschedulable"] = false.into());
            }
            Fault::NodeGone(node) | Fault::NodeReplaced(node) => {
                if let Some(plan) = self.plan.nodes.iter().find(|n| n.name == node).cloned()
                    && self.api.get(Kind::Nodes, &node).is_none()
                {
                    self.create_node(&plan);
                }
            }
            Fault::Sick(node, _) | Fault::Unreported(node) => self.plan_report(&node, 50),
            _ => {}
        }
    }

    /// One of the name is created as soon as the pod before it is gone.
    pub fn create_again(&mut self, pod: String) {
        if self.api.get(Kind::Pods, &pod).is_some() {
            return self.at(self.now.after(20), Happening::Again(pod));
        }
        if let Some(plan) = self.plan.pods.iter().find(|p| p.name == pod).cloned() {
            self.create_pod(&plan);
        }
    }

    /// Pods of a node that is gone are cleared away.
    pub fn clear_orphans(&mut self, node: &str) {
        if self.api.get(Kind::Nodes, node).is_some() {
            return;
        }
        let on_it = |pod: &&Value| node_of(pod) == Some(node);
        let pods = self.api.all(Kind::Pods).map(|object| &object.value).filter(on_it);
        let pods: Vec<String> = pods.map(|pod| super::api::name(pod).to_owned()).collect();
        pods.iter().for_each(|pod| self.api.remove(Kind::Pods, pod));
    }

    fn remove_node(&mut self, node: &str) {
        self.api.remove(Kind::Nodes, node);
        // Its report goes with it, or a little later than its pods notice.
        if self.chance.chance(70) {
            self.api.remove(Kind::Reports, node);
        }
    }

    fn everywhere(&mut self, kind: Kind, step: &Step) {
        for replica in 0..self.replicas.len() {
            self.own(replica, self.now, Own::Watch(kind, step.clone()));
        }
    }
}
