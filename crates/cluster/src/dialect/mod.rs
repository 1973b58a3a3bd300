//! Dialects: the ways in which pods ask for GPUs. Each one turns a pod into the engine's normal form.

mod native;

use gpu_scheduler_engine::model::{Demand, ModelPattern, RequestError};

use crate::objects;

pub use native::Native;

/// What a pod asks of GPUs, by some dialect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuAsk {
    /// For each init container and then each app container, in the pod's order, what it asks.
    pub demands: Vec<Vec<Demand>>,
    /// Which models will do.
    pub models: ModelPattern,
    /// If not empty, only these cards will do.
    pub uuids: Vec<String>,
    /// Why it makes no sense, if it does not. The demands of the container in question are empty then.
    pub error: Option<RequestError>,
}

/// A way of asking for GPUs.
pub trait Dialect: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether `pod` is written in it.
    fn speaks(&self, pod: &objects::Pod) -> bool;

    /// Whether the resource `name` is only a way to ask: no node offers it, so it must not be fitted as one.
    fn is_only_asked(&self, name: &str) -> bool;

    /// What `pod` asks.
    fn read(&self, pod: &objects::Pod) -> GpuAsk;
}

/// All dialects. The first one that a pod is written in reads it; the last one reads whatever is left.
const DIALECTS: [&dyn Dialect; 1] = [&Native];

/// The dialect that `pod` is written in.
pub fn dialect_of(pod: &objects::Pod) -> &'static dyn Dialect {
    DIALECTS.into_iter().find(|dialect| dialect.speaks(pod)).unwrap_or(&Native)
}
