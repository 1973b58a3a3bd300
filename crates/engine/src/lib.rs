//! The pure, deterministic core of gpu-scheduler: it decides, and does nothing else.
//!
//! Facts come in by [`Engine::handle`], effects go out by [`Engine::poll`], time is an argument:
//!
//! ```text
//! engine.handle(now, event);                          // a node, a pod, a report, the result of an action
//! while let Step::Act(action) = engine.poll(now) {}   // bind, prepare, say why, report
//! engine.next_wakeup();                               // when to poll again if nothing happens
//! engine.explain(&uid);                               // read-only: why
//! ```
//!
//! There is no I/O, no clock, no thread, no random source and no unordered iteration in here, so the same
//! events give the same actions, byte for byte, on any machine.
#![deny(clippy::float_arithmetic)]

pub mod collections;
mod contract;
mod engine;
pub mod framework;
pub mod ledger;
pub mod model;
pub mod plugins;
pub mod preemption;
pub mod prices;
mod queue;
pub mod state;

pub use contract::{Action, Condition, ConditionReason, Event, EvictReason, Notice, Outcome, PreBindStep, Step};
pub use engine::{
    Attempted, Config, Engine, Explanation, NodeExplanation, NodeVerdict, Pending, PodPhase, Preemptions,
    ProfileConfig, RestoreError, Snapshot,
};
pub use framework::Policy;
pub use queue::{Cause, Part, Place};
pub use state::DeclaredPod;
