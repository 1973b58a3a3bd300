//! Identities. Slots are dense indexes into the engine's own tables; names are what the cluster says.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The UID that the API server gave a pod. An allocation belongs to exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodUid(pub Arc<str>);

impl From<&str> for PodUid {
    fn from(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Namespace and name of a pod: for people, never for identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name within it.
    pub name: Arc<str>,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

macro_rules! slot {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The position in the table that it indexes.
            pub fn index(self) -> usize {
                self.0 as usize
            }
            pub(crate) fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 slots"))
            }
        }
    };
}
pub(crate) use slot;

slot! {
    /// A node's slot. Slot order is node order: it breaks ties.
    NodeId
}
slot! {
    /// A pod's slot.
    PodId
}
slot! {
    /// A class of pods with the same scheduling-relevant spec.
    ClassId
}

impl ClassId {
    /// The slot after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Names one action that the engine asked for; its outcome comes back with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);
