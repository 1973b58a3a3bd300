//! What a scheduler says of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a scheduler decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The pod is bound to this node.
    Bound(String),
    /// No node will do, and why.
    Waits(String),
    /// The scheduler gave up with an error.
    Failed(String),
    /// Nothing within the time there was.
    Silent,
}

impl Decision {
    /// The node, if there is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Bound(node) => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound(node) => write!(f, "binds it to {node}"),
            Self::Waits(message) => write!(f, "lets it wait: {message}"),
            Self::Failed(message) => write!(f, "fails: {message}"),
            Self::Silent => write!(f, "says nothing"),
        }
    }
}

/// All that a scheduler did about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The first decision.
    pub decision: Decision,
    /// Pods that it made go, and the node on which the pod is then.
    pub preempted: Option<Preempted>,
    /// The volume of each claim of the pod.
    pub volumes: BTreeMap<String, String>,
}

/// A preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// The node that was nominated.
    pub node: String,
    /// `NAMESPACE/NAME` of those who had to go.
    pub victims: BTreeSet<String>,
    /// Where the pod is in the end.
    pub after: Decision,
}

/// The reasons of a message: what kube-scheduler counts nodes under, or what it says of all of them. Whatever
/// follows, about preemption or other things, is none.
#[must_use]
pub fn reasons(message: &str) -> &str {
    let end = message.find(". ").or_else(|| message.ends_with('.').then(|| message.len() - 1));
    &message[..end.unwrap_or(message.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_end_before_what_else_is_said() {
        for (message, expected) in [
            (
                "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods.",
                "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods",
            ),
            (
                "0/1 nodes are available: 1 Insufficient example.com/widget. preemption: 0/1 nodes are available: 1 No.",
                "0/1 nodes are available: 1 Insufficient example.com/widget",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ] {
            assert_eq!(reasons(message), expected);
        }
    }
}
