//! `gpu-scheduler agent` on a real kubelet, with the scheduler that wrote the records: from the described library to a
//! running container.
//!
//! They need root; `scripts/install-node-runtime` brings what they run. `KUBERNETES_MINOR` chooses the minor.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod bed;
mod check;
mod cost;
mod daemon_set;
mod hand_out;
mod health;
mod numa;
mod observe;
mod partition;
mod restarts;
mod sharing;
