//! `pods_<variant>.csv`: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and often gpu_spec.

use std::path::Path;

use gpu_scheduler_engine::DeclaredPod;
use gpu_scheduler_engine::model::{
    Container, ContainerKind, Demand, GpuShape, MilliGpu, ModelPattern, Percent, Pod, Quantity, ResourceList,
    ShareMemory,
};

use super::error::{Table, TraceError};

/// A pod of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePod {
    /// Name.
    pub name: String,
    /// Milli-cores.
    pub cpu: i64,
    /// MiB of host memory.
    pub memory: i64,
    /// What it asks of GPUs.
    pub demand: Option<Demand>,
    /// Which models will do.
    pub models: ModelPattern,
}

impl TracePod {
    /// What it asks for, in thousandths of a card; of memory and compute the larger part.
    pub fn gpu_milli(&self) -> u64 {
        match &self.demand {
            Some(Demand::Cards { count }) => 1000 * u64::from(*count),
            Some(Demand::Share { memory: ShareMemory::Fraction(part), compute, count }) => {
                u64::from(*count) * u64::from(part.0.max(10 * compute.0))
            }
            _ => 0,
        }
    }

    /// Its outline.
    pub fn declared(&self) -> DeclaredPod {
        let gpu = match &self.demand {
            Some(Demand::Cards { count }) => GpuShape::Cards(*count),
            Some(Demand::Share { memory, compute, count }) => {
                GpuShape::Share { memory: *memory, compute: *compute, count: *count }
            }
            _ => GpuShape::None,
        };
        DeclaredPod { cpu: self.cpu, gpu, models: self.models.clone() }
    }

    /// The pod as the engine takes it, under a UID of its own.
    pub fn to_pod(&self, uid: &str, scheduler: &str) -> Pod {
        let mut pod = Pod::new(uid, "openb", &self.name);
        pod.scheduler = scheduler.to_owned();
        pod.models = self.models.clone();
        let mut requests: ResourceList =
            [("cpu".to_owned(), Quantity::millis(self.cpu)), ("memory".to_owned(), Quantity::units(self.memory << 20))]
                .into();
        if let Some(Demand::Cards { count }) = self.demand {
            requests.insert("nvidia.com/gpu".into(), Quantity::units(i64::from(count)));
        }
        let mut container = Container::new("main", ContainerKind::App, requests);
        container.gpu.extend(self.demand.clone());
        pod.containers.push(container);
        pod
    }
}

/// Reads the pods in the file's order.
///
/// # Errors
/// Where the file cannot be read, or a value makes no sense.
pub fn read_pods(path: &Path) -> Result<Vec<TracePod>, TraceError> {
    let required = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    let table = Table::open(path, &required, &["gpu_spec"])?;
    let pods = table.rows(|row| {
        let cards = u32::try_from(row.number("num_gpu", 1024)?).unwrap_or(0);
        let milli = u32::try_from(row.number("gpu_milli", 1000)?).unwrap_or(0);
        let demand = match (cards, milli) {
            (0, _) => None,
            (1, 0) => return Err(row.bad("gpu_milli", "1 to 1000 for a pod with one GPU")),
            (1, 1..1000) => {
                let memory = ShareMemory::Fraction(MilliGpu(milli));
                Some(Demand::Share { memory, compute: Percent(0), count: 1 })
            }
            (count, _) => Some(Demand::Cards { count }),
        };
        Ok(TracePod {
            name: row.text("name").to_owned(),
            cpu: row.number("cpu_milli", 1 << 40)?.cast_signed(),
            memory: row.number("memory_mib", 1 << 40)?.cast_signed(),
            demand,
            models: ModelPattern::from_globs(row.text("gpu_spec").split('|')),
        })
    })?;
    if pods.iter().all(|p| p.gpu_milli() == 0) {
        return Err(TraceError::Content {
            path: path.into(),
            what: "no pod asks for a GPU; nothing can be measured".into(),
        });
    }
    Ok(pods)
}
