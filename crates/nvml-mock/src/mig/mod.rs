//! What Multi-Instance GPU makes of a card: the profiles of each model, and the instances on one card.

mod instances;
mod table;

pub use instances::{ComputeInstance, GpuInstance, Instances, Refusal};
pub use table::{ComputeProfile, Engines, Profile, Table, table, tables};
