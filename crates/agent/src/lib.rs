//! One node's GPUs: found, handed out through kubelet, labelled, reported and measured.
//!
//! The agent knows its node and nothing of the cluster: which pod gets which card is the scheduler's to say, in the record
//! on the pod.

pub mod collect;
pub mod health;
pub mod host;
pub mod inventory;
pub mod kubelet;
pub mod labels;
pub mod metrics;
pub mod nvml;
pub mod observe;
pub mod pods;
pub mod state;
pub mod usage;

#[cfg(test)]
mod fixtures;
