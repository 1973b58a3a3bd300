//! What tests stand on: a runner for scenario files, builders for nodes and pods, a real control plane, and real nodes.
//!
//! A scenario is one readable text file: a cluster, submissions, and the decisions expected of the engine.
//! `scenarios/README.md` at the root of the repository describes the syntax. The runner plays the part of
//! the cluster: it brings events on virtual time, answers binds, and after each block checks, independently
//! of the engine's own assertions, that what the engine believes can be true.
//!
//! ```
//! use gpu_scheduler_testbed::{RunOptions, Scenario, run};
//!
//! let text = "# One pod gets one card.\n\nnode n1 gpus=2\npod a gpus=1\n----\nbind default/a -> n1 [main: 0]\n";
//! let scenario = Scenario::parse("first.txt", text).expect("it is well written");
//! let transcript = run(&scenario, RunOptions::default()).expect("it comes to rest");
//! assert_eq!(scenario.with_outputs(&transcript), text);
//! ```

#[cfg(feature = "control-plane")]
pub mod agent;
#[cfg(feature = "control-plane")]
pub mod bench;
pub mod builders;
#[cfg(feature = "control-plane")]
pub mod checker;
#[cfg(feature = "collector")]
pub mod collector;
mod command;
#[cfg(feature = "control-plane")]
pub mod control_plane;
#[cfg(feature = "control-plane")]
pub mod deploy;
#[cfg(feature = "control-plane")]
pub mod differential;
#[cfg(feature = "control-plane")]
mod draw;
mod error;
mod invariants;
#[cfg(feature = "control-plane")]
pub mod node;
mod node_syntax;
#[cfg(feature = "control-plane")]
pub mod objects;
mod pod_syntax;
#[cfg(feature = "control-plane")]
pub mod proxy;
mod record;
mod restart;
mod run;
mod scenario;
#[cfg(feature = "control-plane")]
pub mod scheduler;
#[cfg(feature = "schedules")]
pub mod schedules;
mod show;
#[cfg(feature = "control-plane")]
pub mod suite;
#[cfg(feature = "control-plane")]
pub mod usage;
mod words;
mod world;

pub use error::ScenarioError;
pub use run::{RunOptions, Transcript, run};
pub use scenario::{Block, Scenario};
