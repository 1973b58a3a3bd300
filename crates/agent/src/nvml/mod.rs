//! What NVIDIA's management library says: the only place that talks to it.
//!
//! A call that fails costs its value, a card that is lost costs itself, and the rest of the round goes on.

mod activity;
mod events;
mod fault;
mod inventory;
mod library;
mod links;
mod processes;
mod profile;
mod rate;
mod raw;
mod sample;
mod sampler;
mod xid;

pub use events::{XidInbox, XidSink, XidWatcher};
pub use fault::{CardFault, Failures};
pub use inventory::{DriverGone, Fingerprint, Reading, fingerprint, read};
pub use library::{DEFAULT_PATH, Library, LibraryError};
pub use sample::{Activity, Ecc, Instance, Memory, Process, RemappedRows, Sample};
pub use sampler::Sampler;
pub use xid::XidEvent;
