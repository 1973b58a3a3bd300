//! What must never happen.

use std::time::Duration;

use thiserror::Error;

/// Something that must never happen, and did. Pods are named by their names, cards by their UUIDs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Violation {
    /// Pods hold more of a card than there is.
    #[error("card {card} is over its capacity for {lasted:?}: {memory} MiB and {compute} % held by {}", holders.join(", "))]
    OverCapacity {
        /// The card.
        card: String,
        /// Memory that is held, MiB.
        memory: u64,
        /// Compute that is held, percent.
        compute: u64,
        /// Who holds it.
        holders: Vec<String>,
        /// For how long, as far as it was seen.
        lasted: Duration,
    },
    /// Somebody holds a card whole, and is not alone on it.
    #[error("card {card} is held whole and not by one pod alone for {lasted:?}: by {}", holders.join(", "))]
    WholeCardShared {
        /// The card.
        card: String,
        /// Who holds it.
        holders: Vec<String>,
        /// For how long, as far as it was seen.
        lasted: Duration,
    },
    /// Two pods hold one slice of a card.
    #[error("slice {slice} is held twice for {lasted:?}: by {}", holders.join(", "))]
    SliceTwice {
        /// The slice.
        slice: String,
        /// Who holds it.
        holders: Vec<String>,
        /// For how long, as far as it was seen.
        lasted: Duration,
    },
    /// A pod was bound to one node and then to another.
    #[error("pod {pod} was bound to {first} and is bound to {then}")]
    BoundTwice {
        /// The pod.
        pod: String,
        /// Its first node.
        first: String,
        /// Its second one.
        then: String,
    },
    /// What a bound pod holds was written a second time.
    #[error("pod {pod} is bound, and its record was {first} and is {then}")]
    RecordRewritten {
        /// The pod.
        pod: String,
        /// What it was bound with; empty where there was none.
        first: String,
        /// What it says now; empty where there is none.
        then: String,
    },
    /// A pod was bound, and is not any more.
    #[error("pod {pod} was bound to {node} and is not any more")]
    Unbound {
        /// The pod.
        pod: String,
        /// The node that it was on.
        node: String,
    },
    /// A pod holds cards without being anywhere.
    #[error("pod {pod} has a record and no node")]
    RecordWithoutNode {
        /// The pod.
        pod: String,
    },
    /// A record that nobody can read.
    #[error("pod {pod}: {why}")]
    BrokenRecord {
        /// The pod.
        pod: String,
        /// What is wrong with it.
        why: String,
    },
    /// A pod that asks for cards is bound, and nothing says to which.
    #[error("pod {pod} is bound without a record of its cards")]
    BoundWithoutRecord {
        /// The pod.
        pod: String,
    },
    /// A pod that neither is bound nor says why it waits.
    #[error("pod {pod} neither is bound nor says why it waits")]
    Unsettled {
        /// The pod.
        pod: String,
    },
}
