//! A model of the agents: each reports its node's cards, what pods use of them, and which are sick.

use serde_json::{Value, json};

use super::api::{Written, node_of, uid};
use super::kubelet::runs;
use super::objects;
use super::plan::{Kind, Moment, NodePlan, Told};
use super::sim::{Happening, Sim};
use crate::deploy::RECORD;

/// A report is written at most so often, unless something is wrong with a card.
const SPARSE: Moment = 10_000;

impl Sim {
    /// A pod was written: its node's agent will report what it uses.
    pub fn agent_sees(&mut self, written: &Written) {
        let Some(node) = node_of(&written.object.value).map(ToOwned::to_owned) else { return };
        self.plan_report(&node, SPARSE);
    }

    /// An agent is to report within this time.
    pub fn plan_report(&mut self, node: &str, within: Moment) {
        let has_agent = |n: &&NodePlan| n.name == node && n.told != Told::ByLabels;
        if self.plan.nodes.iter().any(|n| has_agent(&n)) && self.reports_due.insert((node.to_owned(), within < SPARSE))
        {
            let pause = self.chance.below(within as usize) as Moment;
            self.at(self.now.after(pause), Happening::Agent(node.to_owned(), within < SPARSE));
        }
    }

    /// An agent reports.
    pub fn agent_reports(&mut self, node: &str, urgent: bool) {
        self.reports_due.remove(&(node.to_owned(), urgent));
        let Some(plan) = self.plan.nodes.iter().find(|n| n.name == node).cloned() else { return };
        if self.is_unreported(node) || self.api.get(Kind::Nodes, node).is_none() {
            return;
        }
        let report = objects::report(&plan, self.now, &self.sick_cards(node), &self.holders(&plan));
        match self.api.get(Kind::Reports, node) {
            None => self.api.put(Kind::Reports, node, report),
            Some(_) => self.api.change(Kind::Reports, node, |there| {
                // The time alone is no news.
                let same = there["status"]["devices"] == report["status"]["devices"];
                if !same {
                    there["status"] = report["status"].clone();
                }
            }),
        }
    }

    /// What pods use of each card of a node: all that they were given.
    fn holders(&self, plan: &NodePlan) -> Vec<Vec<Value>> {
        let mut holders = vec![Vec::new(); plan.cards as usize];
        let here = |pod: &&Value| node_of(pod) == Some(plan.name.as_str()) && runs(pod);
        for pod in self.api.all(Kind::Pods).map(|object| &object.value).filter(here) {
            let Some(record) = pod["metadata"]["annotations"][RECORD].as_str() else { continue };
            let Ok(record) = serde_json::from_str::<Value>(record) else { continue };
            let containers = record["containers"].as_array().into_iter().flatten();
            for device in containers.flat_map(|container| container["devices"].as_array().into_iter().flatten()) {
                let at = device["index"].as_u64().and_then(|index| usize::try_from(index).ok());
                let Some(card) = at.and_then(|at| holders.get_mut(at)) else { continue };
                // A whole card is rarely full.
                let used = device["memoryMiB"].as_u64().unwrap_or(0) / 2;
                card.push(json!({"podUID": uid(pod), "usedMiB": used}));
            }
        }
        holders
    }
}
