//! Kubernetes objects on one side, the engine's facts on the other.
//!
//! Everything here translates; nothing decides. The same readers serve `gpu-scheduler plan`, which reads
//! dumps ([`dump`]), and whoever watches a live API server. An object is never dropped because one part of
//! it makes no sense: the part is left out and a [`Finding`] says which, why, and what to do about it.

pub mod allocation;
pub mod config;
pub mod dialect;
pub mod driver;
pub mod dump;
pub mod exchange;
pub mod journal;
pub mod live;
pub mod metrics;
pub mod objects;
pub mod plan;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod serve;

mod device_report;
mod node;
mod pod;
mod problem;
mod quantity;
mod selector;
mod storage;
mod time;

pub use device_report::read_device_report;
pub use node::read_node;
pub use pod::{FinishedPod, PodFact, read_pod};
pub use problem::{Finding, ObjectRef, Origin, Problem};
pub use time::parse_timestamp;
