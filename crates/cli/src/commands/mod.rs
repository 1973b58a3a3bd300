//! The commands, one file each.

pub mod plan;
pub mod run;
pub mod simulate;
