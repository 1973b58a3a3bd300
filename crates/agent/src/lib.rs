//! One node's GPUs: found, handed out through kubelet, labelled, reported and measured.
//!
//! The agent knows its node and nothing of the cluster: which pod gets which card is the scheduler's to say, in the record
//! on the pod.

pub mod agent;
pub mod allocate;
pub mod check;
pub mod checkpoint;
pub mod collect;
pub mod config;
pub mod container;
mod folder;
pub mod handout;
pub mod health;
pub mod host;
pub mod inventory;
pub mod kubelet;
pub mod labels;
pub mod metrics;
pub mod mig;
pub mod nvml;
pub mod observe;
pub mod plugin;
pub mod podresources;
pub mod pods;
pub mod report;
pub mod resources;
pub mod sharing;
pub mod state;
pub mod topology_manager;
pub mod usage;

#[cfg(test)]
mod fixtures;
