//! Whether a scheduler decides as Kubernetes' own does, on clusters and pods drawn from a seed.
//!
//! Two control planes have the same objects. Kube-scheduler runs on one, the scheduler in question on the other; both
//! are asked about one pod at a time, and then the pod is made to be on the same node in both. Three rules must hold:
//! both find a node or neither does; where neither does, both give the same reasons; the node is among those that
//! kube-scheduler, by its log, likes best. Of preemptions the victims must be worth the same, of claims the volumes
//! must be the same.
//!
//! A case (one cluster and what happens on it) depends on its seed alone: among equally good nodes the seed chooses,
//! not a scheduler. Only where claims are bound or pods preempted a scheduler's choice cannot be taken back; such steps
//! come last, and the case ends where the two chose differently.

mod answer;
mod bed;
mod compare;
mod feature;
mod generate;
mod preemption;
mod report;
mod rest;
mod run;
mod scores;
mod settings;
mod volume_binder;
mod watch;

pub use answer::{Answer, Decision, Preempted};
pub use bed::Contender;
pub use compare::Rule;
pub use feature::{Feature, Features};
pub use generate::{Case, Placed, Step, Wish, fixtures};
pub use report::{Disagreement, Report};
pub use run::run;
pub use scores::Scores;
pub use settings::Settings;
