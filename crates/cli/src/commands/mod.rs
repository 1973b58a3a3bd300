//! The commands, one file each, and what several of them need.

pub mod agent;
mod log;
pub mod plan;
pub mod replay;
pub mod run;
mod signals;
pub mod simulate;
