//! The journal: everything that was asked of the engine, so that it can be asked again.
//!
//! [`Recorded`] stands in front of an engine and writes down each event, each poll and what came of it. A file
//! begins with a snapshot of the engine and the configuration, so it can be replayed without any other
//! ([`replay()`]): the engine is deterministic, and what it does again must be what it did, byte for byte.
//!
//! ```text
//! decision loop ── Recorded ──▶ Buffer (bounded) ──▶ thread: zstd, files   DIR/<start>-<sequence>.journal.zst
//! ```
//!
//! Decisions never wait for the disk. Where it is full or too slow, the journal stops with one error, tries again
//! later with a new snapshot, and the next file says that records are missing before it.

mod buffer;
mod files;
mod reader;
mod record;
mod recorded;
mod replay;
mod writer;

#[cfg(test)]
mod tests;

pub use files::{SUFFIX, find};
pub use reader::{End, ReadError, Reader};
pub use record::{FORMAT, Header, Record, Start};
pub use recorded::Recorded;
pub use replay::{Difference, Happened, Replayed, print, replay};
pub use writer::{Journal, JournalOptions};
