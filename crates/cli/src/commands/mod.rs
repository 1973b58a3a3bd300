//! The commands, one file each.

pub mod plan;
pub mod replay;
pub mod run;
pub mod simulate;
