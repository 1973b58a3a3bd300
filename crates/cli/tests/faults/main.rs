//! Faults while `gpu-scheduler run` binds a burst on a real control plane: it is killed, its API server restarts, its
//! watches are cut, its binds are answered wrongly or late, its pods and nodes go, its clock jumps, it is frozen past its lease,
//! and others bind what it was about to bind.
//!
//! A checker watches the API server in every test. What is random comes from a seed that is printed: `FAULT_SEED` repeats it.
//! `FAULT_KILLS` says how often the scheduler is killed, three times unless it says otherwise. `make soak` runs all of it
//! longer.

mod answers;
#[path = "../live/bed.rs"]
#[allow(dead_code, reason = "the tests of `live` use the rest")]
mod bed;
mod burst;
mod chance;
mod clock;
mod deletions;
mod foreign;
mod kills;
mod nodes;
mod outages;
mod planted;
mod replicas;
