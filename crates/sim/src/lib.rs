//! Traces through the engine on virtual time: the same code that binds pods decides here.
//!
//! A trace becomes events ([`openb`]), [`replay`] drives the engine with them, and [`report`] is what came
//! of it. No rule of scheduling lives here.

pub mod openb;
pub mod replay;
pub mod report;
