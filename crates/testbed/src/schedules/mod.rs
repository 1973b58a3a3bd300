//! Schedules of faults: the engine and the live driver's logic against a model of the API server, of kubelets and agents, under a
//! virtual clock and one seed.
//!
//! A [`Plan`] says what a cluster is asked and what goes wrong when. It is drawn from a seed, and everything that happens while
//! it is played follows from it: the same seed, the same trace. The checker that watches real control planes watches the
//! model, and in the end a scheduler that starts now has to agree with the one that went through it all.
//!
//! What stands between the model and what is tested is thin: the driver takes what watches deliver and its effects are
//! carried out by `gpu_scheduler_cluster::exchange` and the election of `live`, as the real loop does.
//!
//! ```text
//! plan ──▶ sim: what happens next ──▶ replica: election · term: driver, desk, evictions ──▶ calls ──▶ api
//!            ▲                                        ▲                                               │
//!            └── kubelets · agents · users · faults   └──────────────── watches ◀─────────────────────┘
//! ```

mod agent;
mod api;
mod broken;
mod calls;
mod clock;
mod controller;
mod election;
mod faults;
mod generate;
mod kubelet;
mod objects;
mod plan;
mod replica;
mod runs;
mod settings;
mod shrink;
mod sim;
mod term;
mod verdict;
mod watch;

pub use broken::Broken;
pub use clock::Instant;
pub use plan::{
    Answered, Asked, Fault, FaultPlan, GroupPlan, Kind, Moment, Need, NodePlan, Plan, PodPlan, Told as ToldBy,
};
pub use runs::{Failure, play, run, trace};
pub use settings::Settings;
