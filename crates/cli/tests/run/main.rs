//! `gpu-scheduler run` as a process that never gets to see an API server: what holds all the same.

mod https;
mod process;
#[cfg(feature = "otlp")]
mod traces;
