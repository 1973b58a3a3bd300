//! What NVIDIA's management library says: the only place that talks to it.
//!
//! A call that fails costs its value, a card that is lost costs itself, and the rest of the round goes on.

mod activity;
mod call;
mod division;
mod events;
mod fault;
mod inventory;
mod library;
mod links;
mod mig_raw;
mod partitioner;
mod processes;
mod profile;
mod rate;
mod raw;
mod sample;
mod sampler;
mod xid;

pub use call::CallError;
pub use division::{ComputeInstance, Division, GpuInstance, InstanceProfile, MigMode, ProfileId};
pub use events::{XidInbox, XidSink, XidWatcher};
pub use fault::{CardFault, Failures};
pub use inventory::{DriverGone, Fingerprint, Reading, fingerprint, read};
pub use library::{DEFAULT_PATH, Library, LibraryError};
pub use partitioner::Partitioner;
pub use sample::{Activity, Ecc, Instance, Memory, Process, RemappedRows, Sample};
pub use sampler::Sampler;
pub use xid::XidEvent;

#[cfg(test)]
pub(crate) use call::probe;
