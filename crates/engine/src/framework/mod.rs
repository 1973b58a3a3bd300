//! The scheduling framework: Kubernetes' extension points, verdicts as values, profiles with one cost.
//!
//! A *profile* is an ordered list of plugins. For one pod a cycle runs `PreFilter`, `Filter` and `Score`
//! over the nodes ([`evaluate`](Profile::evaluate) for one class and node, kept until the node changes),
//! takes the cheapest node, then `Reserve`, `Permit`, `PreBind`, `Bind`, `PostBind`. `PostFilter` runs
//! where no node will do.

mod cache;
mod choice;
mod cycle;
mod diagnosis;
mod evaluation;
mod plugin;
mod policy;
mod profile;
mod reason;
mod twins;
mod volume_reason;

pub(crate) use cache::{ClassCache, ClassCaches, best};
pub use choice::{ChoiceError, Disabled, ExtensionPoint};
pub(crate) use cycle::{Cycle, Cyclic, sift};
pub use cycle::{CyclePlugin, CycleState};
pub use diagnosis::Diagnosis;
pub(crate) use evaluation::find_cards;
pub use evaluation::{Candidate, Evaluation, ScoreTerm};
pub use plugin::{
    Filter, Permission, Permit, PluginName, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, Rescue, Reserve,
    Score, ScoreKind, Scoring, Selection,
};
pub use policy::{Policy, UnknownPolicy};
pub use profile::{PreFiltered, Profile, ShareMode};
pub use reason::{Reason, Rejection, ResourceName, Verdict};
pub use volume_reason::VolumeReason;
