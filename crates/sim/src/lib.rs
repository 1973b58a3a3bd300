//! Traces through the engine on virtual time: the same code that binds pods decides here.
//!
//! A trace becomes events ([`openb`], [`philly`]); [`replay`] fills a cluster with them, [`steady`] keeps pods
//! coming and going, [`philly::Queueing`] lets jobs wait; [`report`] is what came of it. No rule of scheduling
//! lives here. An [`experiment`] is a set of runs, [`html`] their report as a page.

mod driver;
pub mod experiment;
mod gauge;
pub mod html;
pub mod openb;
mod parallel;
mod permille;
pub mod philly;
pub mod random;
pub mod replay;
pub mod report;
mod seeds;
pub mod steady;
mod time_bins;

pub use parallel::in_parallel;
pub use permille::Permille;
pub use seeds::Seeds;
