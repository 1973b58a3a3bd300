//! What a schedule shows to be wrong.

use thiserror::Error;

use super::clock::Instant;
use crate::checker::Violation;

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Broken {
    /// What the checker sees on the API server.
    #[error("{0}")]
    Seen(Violation),
    /// A replica writes although another one holds the Lease, or nobody.
    #[error("at {} ms replica {replica} sends {what} while the lease is held by {holder:?}", at.0)]
    WroteWithoutLease {
        /// When.
        at: Instant,
        /// Who.
        replica: String,
        /// What.
        what: String,
        /// Who holds the Lease.
        holder: String,
    },
    /// Long after all faults it still writes.
    #[error("the last write went out at {} ms, all was calm from {} ms on: {what}", at.0, calm.0)]
    Restless {
        /// When it wrote last.
        at: Instant,
        /// When the last fault had ended.
        calm: Instant,
        /// What it wrote.
        what: String,
    },
    /// Long after all faults nobody leads, or has seen everything.
    #[error("{0}")]
    NobodyLeads(String),
    /// The engine's state cannot be true.
    #[error("{0}")]
    Invariant(String),
    /// A scheduler that starts now sees the cluster otherwise than the one that runs.
    #[error("node {node} looks otherwise to a scheduler that starts now:\n  running {running}\n  fresh   {fresh}")]
    Differs {
        /// The node.
        node: String,
        /// What the running one sees.
        running: String,
        /// What the fresh one sees.
        fresh: String,
    },
    /// A pod waits although a scheduler that starts now would bind it or make room for it.
    #[error("{0}")]
    Forgotten(String),
    /// It does not come to an end.
    #[error("at {} ms it turns in circles: {what}", at.0)]
    Circles {
        /// When.
        at: Instant,
        /// Where.
        what: &'static str,
    },
    /// An object in order is told of as if it were not.
    #[error("a sound object is told of as broken: {0}")]
    Problem(String),
    /// A panic.
    #[error("panic: {0}")]
    Panicked(String),
}

impl Broken {
    /// Which rule it is, without names and numbers: a smaller schedule that breaks another rule shows another fault.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Seen(violation) => match violation {
                Violation::OverCapacity { .. } => "over capacity",
                Violation::WholeCardShared { .. } => "whole card shared",
                Violation::SliceTwice { .. } => "slice twice",
                Violation::BoundTwice { .. } => "bound twice",
                Violation::RecordRewritten { .. } => "record rewritten",
                Violation::Unbound { .. } => "unbound",
                Violation::RecordWithoutNode { .. } => "record without node",
                Violation::BrokenRecord { .. } => "broken record",
                Violation::BoundWithoutRecord { .. } => "bound without record",
                Violation::Unsettled { .. } => "unsettled",
            },
            Self::WroteWithoutLease { .. } => "wrote without lease",
            Self::Restless { .. } => "restless",
            Self::NobodyLeads(_) => "nobody leads",
            Self::Invariant(_) => "invariant",
            Self::Differs { .. } => "differs",
            Self::Forgotten(_) => "forgotten",
            Self::Circles { .. } => "circles",
            Self::Problem(_) => "problem",
            Self::Panicked(_) => "panic",
        }
    }
}
