//! Facts that drivers bring.

use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    DeviceReport, DisruptionBudget, Node, Pod, PodGroup, PodGroupName, PodUid, StorageKey, StorageObject, Ticket,
    Workload, WorkloadName,
};

/// A fact. The engine never refuses one: what contradicts its own view is observed and reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A node appeared or changed.
    NodeApplied(Box<Node>),
    /// A node is gone. Its pods keep their places until they go too.
    NodeDeleted {
        /// The node's name.
        name: String,
    },
    /// An agent reported a node's cards.
    DevicesReported(Box<DeviceReport>),
    /// A node's report is gone: what the node object says of its cards counts again.
    DeviceReportDeleted {
        /// The node's name.
        node: String,
    },
    /// A pod appeared or changed.
    PodApplied(Box<Pod>),
    /// A pod is gone or finished: it holds nothing any more.
    PodDeleted {
        /// The pod's UID.
        uid: PodUid,
    },
    /// A namespace appeared, or its labels changed.
    NamespaceApplied {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A namespace is gone.
    NamespaceDeleted {
        /// Its name.
        name: Arc<str>,
    },
    /// A service or controller appeared or changed.
    WorkloadApplied(Box<Workload>),
    /// A service or controller is gone.
    WorkloadDeleted(WorkloadName),
    /// A disruption budget appeared or changed.
    DisruptionBudgetApplied(Box<DisruptionBudget>),
    /// A disruption budget is gone.
    DisruptionBudgetDeleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A claim, a volume, or another object that storage is known by appeared or changed.
    StorageApplied(Box<StorageObject>),
    /// Such an object is gone.
    StorageDeleted(StorageKey),
    /// A pod group appeared or changed.
    PodGroupApplied(Box<PodGroup>),
    /// A pod group is gone.
    PodGroupDeleted(PodGroupName),
    /// A pod is not evicted to make room for another one: the API server refuses it for good.
    EvictionRefused {
        /// The pod that stays.
        uid: PodUid,
        /// Whom it was to make room for.
        preemptor: PodUid,
    },
    /// An action was carried out, or not.
    ActionFinished {
        /// The action's ticket. Unknown tickets are ignored: the pod went away in between.
        ticket: Ticket,
        /// How it ended.
        outcome: Outcome,
    },
}

/// How an action ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It took effect.
    Done,
    /// It did not take effect, for sure; the text says why. The pod backs off and is tried again.
    Failed(String),
}
