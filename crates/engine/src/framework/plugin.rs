//! The extension points. Their names and order are those of Kubernetes' scheduling framework.

use std::fmt::Debug;

use crate::contract::PreBindStep;
use crate::framework::{Profile, Reason, Verdict};
use crate::ledger::{Headroom, Placement};
use crate::model::{NodeId, PodId, Symbol, Timestamp};
use crate::preemption::Attempt;
use crate::state::{Class, GroupId, NodeFacts, NodeState, PodEntry, State, Transaction};

/// A plugin's name.
pub type PluginName = &'static str;

/// May a pod enter the queue?
pub trait PreEnqueue: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// `Some` keeps it out until the pod changes, or its group.
    fn pre_enqueue(&self, state: &State, pod: &PodEntry) -> Option<Reason>;
}

/// Which nodes are worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// These names, sorted.
    Only(Vec<Symbol>),
    /// None: nothing that could be freed would help.
    Reject(Reason),
}

/// Looks at the pod before any node.
pub trait PreFilter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// Which nodes are worth a look. Depends on the class and [`PreFilter::epoch`] alone.
    fn pre_filter(&self, state: &State, class: &Class) -> Selection;
    /// Changes whenever a class may get another answer; every pod that waits is then tried again.
    fn epoch(&self, _state: &State) -> u64 {
        0
    }
}

/// Says whether a node will do. Depends on the class, the node and [`Filter::epoch`] alone, so that the answer
/// holds until one of them changes.
pub trait Filter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// Whether `node` will do.
    fn filter(&self, state: &State, class: &Class, node: &NodeState, facts: &NodeFacts) -> Verdict;
    /// Changes whenever a class and node that did not change may get another answer; every pod that waits is then
    /// tried again.
    fn epoch(&self, _state: &State) -> u64 {
        0
    }
}

/// What a PostFilter plugin found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rescue {
    /// Nothing to add.
    Nothing,
    /// No help, and this is why; it is added to the pod's message.
    Helpless(String),
    /// The step budget is spent: ask again.
    Unfinished,
    /// It would fit on the node if these pods were gone.
    Preempt {
        /// The node.
        node: NodeId,
        /// The pods, the most important first. Some may be on their way already.
        victims: Vec<PodId>,
    },
}

/// Tries to make room where no node will do. What it tries in the transaction is undone.
pub trait PostFilter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// What could be done for the attempt's pod. The profile's filters judge what it tries.
    fn post_filter(&self, what_if: &mut Transaction<'_>, profile: &Profile, attempt: Attempt<'_>) -> Rescue;
}

/// How a score is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScoreKind {
    /// A cost in thousandths of a milli-GPU, added as it is.
    Cost,
    /// Points from 0 to 100, more is better.
    Points,
    /// Any number, more is better: scaled to 0 to 100 by the largest among the nodes that will do.
    Normalized,
    /// Any number, less is better: scaled the other way round.
    NormalizedReverse,
}

/// A placement under judgement.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// The cluster.
    pub state: &'a State,
    /// The pod's class.
    pub class: &'a Class,
    /// The node.
    pub node: &'a NodeState,
    /// What the node object says.
    pub facts: &'a NodeFacts,
    /// The cards taken.
    pub placement: &'a Placement,
    /// What is left of the node now.
    pub before: &'a Headroom,
    /// What would be left of it.
    pub after: &'a Headroom,
}

/// Says how good a placement is. Depends on the class, the node and [`Score::epoch`] alone.
pub trait Score: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// How to read the number.
    fn kind(&self) -> ScoreKind;
    /// The number.
    fn score(&self, placement: &Scoring<'_>) -> i64;
    /// Changes whenever equal placements may get another number.
    fn epoch(&self, _state: &State) -> u64 {
        0
    }
    /// Whether twins ([`NodeState::is_twin_of`]) always get the same number: then one of them is asked about. Only
    /// who reads nothing of a bare node but its cards and CPU may say so.
    fn same_on_twins(&self, _class: &Class) -> bool {
        false
    }
    /// A cost that is the same for all nodes of a group, in thousandths of a milli-GPU. It may change at
    /// any time: it is asked for at every decision and never kept.
    fn group_cost(&self, _state: &State, _class: &Class, _group: GroupId) -> i64 {
        0
    }
    /// Whether [`Score::group_cost`] says anything.
    fn prices_groups(&self) -> bool {
        false
    }
    /// Whether it reads [`State::prices`].
    fn wants_prices(&self) -> bool {
        false
    }
    /// A cost that differs from decision to decision, in thousandths of a milli-GPU.
    fn per_decision(&self, _decision: u64, _node: NodeId) -> i64 {
        0
    }
    /// Whether [`Score::per_decision`] says anything.
    fn varies(&self) -> bool {
        false
    }
}

/// Takes note of a placement before it is final, and may still refuse it.
pub trait Reserve: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// Takes note. A refusal undoes the placement.
    fn reserve(&self, state: &State, pod: PodId, node: NodeId) -> Verdict;
    /// Forgets it again; may come without a `reserve` before it.
    fn unreserve(&self, state: &State, pod: PodId, node: NodeId);
}

/// What a Permit plugin says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Go on.
    Allow,
    /// Hold the placement; ask again whenever another pod was placed, give up at this time.
    Wait(Timestamp),
    /// No.
    Reject(Reason),
}

/// Holds a placed pod back from being bound, until others are placed too.
pub trait Permit: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// May `pod` be bound now?
    fn permit(&self, now: Timestamp, state: &State, pod: PodId, node: NodeId) -> Permission;
}

/// Asks for something to be done outside before the bind.
pub trait PreBind: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// What to do, if anything.
    fn pre_bind(&self, state: &State, pod: PodId, node: NodeId) -> Option<PreBindStep>;
}

/// Is told of a bind that took effect.
pub trait PostBind: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> PluginName;
    /// It took effect.
    fn post_bind(&self, state: &State, pod: PodId, node: NodeId);
}
