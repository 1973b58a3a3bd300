//! What goes into the engine and what comes out of it.

mod action;
mod event;

pub use action::{Action, Condition, ConditionReason, EvictReason, Notice, PreBindStep, Step};
pub use event::{Event, Outcome};
