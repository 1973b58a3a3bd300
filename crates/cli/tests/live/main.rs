//! `gpu-scheduler run` on a real API server with simulated nodes, as a process, as users run it.
//!
//! `KUBERNETES_MINOR` chooses the minor. Every test has a control plane of its own, and a checker that watches it.

#[allow(dead_code, reason = "the fault tests use the rest")]
mod bed;
mod binding;
mod faults;
mod figures;
mod lifecycle;
mod replicas;
#[cfg(feature = "otlp")]
mod traces;
mod waiting;
