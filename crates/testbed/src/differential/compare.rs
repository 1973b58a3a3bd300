//! The rules.

use std::fmt;

use super::answer::{Answer, Decision, reasons};
use super::scores::Scores;

/// What two schedulers can disagree about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Whether the pod can be placed at all.
    Feasible,
    /// Whether the node is one that would do.
    RuledOut,
    /// Whether the node is among the best.
    Best,
    /// Why the pod waits.
    Reasons,
    /// Who has to go for it, and where.
    Preemption,
    /// Which volumes its claims get.
    Volumes,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Feasible => "only one of them finds a node",
            Self::RuledOut => "the node is one that kube-scheduler rules out",
            Self::Best => "the node is not among kube-scheduler's best",
            Self::Reasons => "the reasons differ",
            Self::Preemption => "the preemptions differ",
            Self::Volumes => "the volumes differ",
        })
    }
}

/// The nodes between which kube-scheduler had the choice.
pub(super) fn choice<'a>(reference: &'a Answer, scores: &'a Scores) -> Vec<&'a str> {
    match reference.decision.node() {
        // A single node that will do is not scored.
        Some(node) if scores.totals.is_empty() => vec![node],
        Some(_) => scores.best(),
        None => Vec::new(),
    }
}

/// The rule that the second answer breaks, if any, with the nodes that the first could have chosen.
pub(super) fn broken(reference: &Answer, choice: &[&str], scores: &Scores, subject: &Answer) -> Option<Rule> {
    match (&reference.decision, &subject.decision) {
        (Decision::Bound(_), Decision::Bound(node)) if choice.contains(&node.as_str()) => None,
        (Decision::Bound(_), Decision::Bound(node)) if scores.totals.contains_key(node) => Some(Rule::Best),
        (Decision::Bound(_), Decision::Bound(_)) => Some(Rule::RuledOut),
        (Decision::Waits(expected), Decision::Waits(said)) => {
            (reasons(expected) != reasons(said)).then_some(Rule::Reasons)
        }
        _ => Some(Rule::Feasible),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn answer(decision: Decision) -> Answer {
        Answer { decision, preempted: None, volumes: BTreeMap::new() }
    }

    #[test]
    fn rules() {
        let bound = |node: &str| answer(Decision::Bound(node.to_owned()));
        let waits = |why: &str| answer(Decision::Waits(format!("0/3 nodes are available: {why}")));
        let totals = [("a", 5), ("b", 9), ("c", 9)].map(|(node, score)| (node.to_owned(), score));
        let scored = Scores { totals: totals.into(), ..Scores::default() };
        let unscored = Scores::default();
        for (reference, scores, subject, expected) in [
            (bound("b"), &scored, bound("b"), None),
            (bound("b"), &scored, bound("c"), None),
            (bound("b"), &scored, bound("a"), Some(Rule::Best)),
            (bound("b"), &scored, bound("d"), Some(Rule::RuledOut)),
            (bound("b"), &unscored, bound("b"), None),
            (bound("b"), &unscored, bound("c"), Some(Rule::RuledOut)),
            (bound("b"), &unscored, waits("3 Too many pods."), Some(Rule::Feasible)),
            (waits("3 Too many pods."), &unscored, bound("b"), Some(Rule::Feasible)),
            (waits("3 Too many pods."), &unscored, waits("3 Too many pods. Nearest: b."), None),
            (waits("3 Too many pods."), &unscored, waits("2 Too many pods."), Some(Rule::Reasons)),
            (waits("3 Too many pods."), &unscored, answer(Decision::Silent), Some(Rule::Feasible)),
        ] {
            let choice = choice(&reference, scores);
            assert_eq!(broken(&reference, &choice, scores, &subject), expected, "{reference:?} {subject:?}");
        }
    }
}
