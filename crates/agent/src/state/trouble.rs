//! What is said of a write that failed: what, and what to do.

use std::collections::BTreeMap;

use super::cadence::Report;

/// What was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The `GPUNodeState`.
    State,
    /// The node's annotations.
    Annotations,
    /// The node's labels.
    Labels,
}

impl Target {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "gpunodestate",
            Self::Annotations => "annotations",
            Self::Labels => "labels",
        }
    }
}

impl From<Report> for Target {
    fn from(report: Report) -> Self {
        match report {
            Report::State => Self::State,
            Report::Annotations => Self::Annotations,
        }
    }
}

/// Says what is wrong when it begins, and when it is over.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<Target, String>);

impl Said {
    /// A write failed.
    pub fn failed(&mut self, target: Target, node: &str, why: &str) {
        let text = advice(target, node, why);
        if self.0.insert(target, text.clone()).as_ref() != Some(&text) {
            tracing::warn!("{text}");
        }
    }

    /// A write took effect.
    pub fn worked(&mut self, target: Target) {
        if self.0.remove(&target).is_some() {
            tracing::info!(what = target.as_str(), "it can be written again");
        }
    }
}

/// A failed request in words that are the same each time.
pub(super) fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => match status.code {
            403 => "it is forbidden".to_owned(),
            404 => "it is not there".to_owned(),
            409 => "somebody else writes it at the same time".to_owned(),
            _ => format!("the API server says {}: {}", status.code, status.message),
        },
        other => format!("the API server cannot be reached: {other}"),
    }
}

fn advice(target: Target, node: &str, why: &str) -> String {
    let (what, missing) = match target {
        Target::State => (
            format!("GPUNodeState {node}"),
            "install the resource definition, deploy/10-gpunodestate.yaml; it is waited for",
        ),
        Target::Annotations => (format!("the annotations of node {node}"), "check --node-name; the node is waited for"),
        Target::Labels => (format!("the labels of node {node}"), "check --node-name; the node is waited for"),
    };
    let then = match why {
        "it is not there" => missing,
        "it is forbidden" => "bind the agent's service account to its ClusterRole",
        _ => "it is tried again, with what is newest then",
    };
    format!("cannot write {what}: {why}; {then}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        for (target, why, expected) in [
            (Target::State, "it is not there", "deploy/10-gpunodestate.yaml"),
            (Target::Annotations, "it is not there", "--node-name"),
            (Target::Labels, "it is forbidden", "ClusterRole"),
            (Target::State, "the API server cannot be reached: x", "tried again"),
        ] {
            let text = advice(target, "n1", why);
            assert!(text.contains(expected) && text.contains("n1"), "{text}");
        }
    }
}
