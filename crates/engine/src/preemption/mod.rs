//! Making room: which pods of lower priority to take off which node, so that a pod fits that fits nowhere.
//!
//! As kube-scheduler's `DefaultPreemption`: on each node where it could help, all pods of lower priority are taken off in
//! a transaction, and as many as possible put back, the important ones first. Of the nodes that are left the one wins
//! whose victims matter least. For GPUs more than one order of putting back is tried, so that *one* card is freed and not
//! a bit of each.

mod budgets;
mod dry_run;
mod fit;
mod orders;
mod search;

pub(crate) use dry_run::helps;
pub(crate) use fit::{fits_beside_nominated, leaves_cards_to_nominated};
pub use search::{Attempt, Search};
