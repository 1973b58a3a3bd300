//! What came of it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::answer::Answer;
use super::compare::Rule;
use super::feature::{Feature, Features};
use super::scores::Scores;

/// How often the two agreed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Clusters that were made.
    pub cases: usize,
    /// Pods that both were asked about.
    pub placements: usize,
    /// Of these, pods that kube-scheduler let wait.
    pub waiting: usize,
    /// Of these, pods for which kube-scheduler had several equal nodes.
    pub ties: usize,
    /// Of these, pods for which others had to go.
    pub preemptions: usize,
    /// Pods that nobody was asked about, since the clusters differed after an equally good choice before them.
    pub skipped: usize,
    /// By feature: placements that used it, and how many of them agreed.
    pub features: BTreeMap<Feature, (usize, usize)>,
    /// Where they did not.
    pub disagreements: Vec<Disagreement>,
}

impl Report {
    pub(super) fn count(&mut self, features: &Features, agreed: bool) {
        self.placements += 1;
        for feature in features {
            let (used, agreeing) = self.features.entry(*feature).or_default();
            *used += 1;
            *agreeing += usize::from(agreed);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, placements, waiting, ties, preemptions, skipped, .. } = self;
        let agreed = placements - self.disagreements.len();
        writeln!(
            f,
            "{agreed} of {placements} placements on {cases} clusters agree; {waiting} pods wait, {ties} had several best \
             nodes, {preemptions} preempted, {skipped} were skipped"
        )?;
        for (feature, (used, agreed)) in &self.features {
            writeln!(f, "  {:<28} {agreed:>5} of {used:>5}", feature.name())?;
        }
        Ok(())
    }
}

/// One placement that they did not agree on, with all that is needed to look into it.
#[derive(Debug, Clone)]
pub struct Disagreement {
    /// The seed of the case.
    pub seed: u64,
    /// The step, from 0; rivals have none.
    pub step: Option<usize>,
    /// So many pods of the case were asked about, this one with them.
    pub asked: usize,
    /// What they disagree about.
    pub rule: Rule,
    /// What the pod uses.
    pub features: Features,
    /// Nodes, volumes, services.
    pub objects: Vec<Value>,
    /// Pods on their nodes.
    pub live: Vec<Value>,
    /// The pod.
    pub pod: Value,
    /// What kube-scheduler did.
    pub reference: Answer,
    /// What it thought of the nodes.
    pub scores: Scores,
    /// What the other one did.
    pub subject: Answer,
}

impl Disagreement {
    /// The heart of it, in a few lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let features: Vec<String> = self.features.iter().map(|feature| feature.name()).collect();
        let step = self.step.map_or("before the first step".to_owned(), |step| format!("step {step}"));
        let pod = &self.pod["metadata"]["name"];
        let mut text = format!("seed {}, {step}, pod {pod}: {} [{}]\n", self.seed, self.rule, features.join(", "));
        for (who, answer) in [("kube-scheduler", &self.reference), ("the other one", &self.subject)] {
            text += &format!("  {who} {}\n", answer.decision);
            if let Some(preempted) = &answer.preempted {
                text += &format!("    {preempted:?}\n");
            }
            if !answer.volumes.is_empty() {
                text += &format!("    {:?}\n", answer.volumes);
            }
        }
        for (node, total) in &self.scores.totals {
            text += &format!("  score of {node}: {total} = {:?}\n", self.scores.parts.get(node));
        }
        text
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut objects = self.objects.clone();
        objects.extend(self.live.iter().cloned());
        objects.push(self.pod.clone());
        for object in &objects {
            let yaml = serde_saphyr::to_string(object).unwrap_or_else(|error| format!("# {error}\n"));
            write!(f, "---\n{yaml}")?;
        }
        writeln!(
            f,
            "# The last one is the pod in question; the classes that they name are in the generator's fixtures."
        )?;
        write!(f, "{}", self.summary())?;
        writeln!(f, "  again: DIFFERENTIAL_SEED={} DIFFERENTIAL_PLACEMENTS={}", self.seed, self.asked)
    }
}
