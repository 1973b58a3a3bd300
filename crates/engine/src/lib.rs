//! The pure, deterministic core of gpu-scheduler.

pub mod collections;
mod contract;
pub mod framework;
pub mod model;

pub use contract::{Action, Condition, ConditionReason, Event, Notice, Outcome, PreBindStep, Step};
/// Being built.
#[derive(Debug)]
pub struct Engine;
