//! What a pod asks of GPUs, in one normal form. Dialects are turned into it before the engine sees them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{ContainerKind, Mib, MilliGpu, ModelPattern, Percent, mul_div};

/// How a share's memory is stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ShareMemory {
    /// So much.
    Mib(Mib),
    /// A part of whichever card it lands on, rounded down to MiB, so that parts that sum to one card fit on it.
    Fraction(MilliGpu),
}

impl ShareMemory {
    /// The memory on a card of `total`.
    pub fn on(self, total: Mib) -> Mib {
        match self {
            Self::Mib(memory) => memory,
            Self::Fraction(part) => Mib(mul_div(total.0, u64::from(part.0), 1000)),
        }
    }
}

/// One thing that a container asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Demand {
    /// `nvidia.com/gpu: count`: whole cards, or seats where a node's cards are time-sliced.
    Cards {
        /// How many distinct cards.
        count: u32,
    },
    /// Memory and compute of each of `count` distinct cards.
    Share {
        /// Memory per card.
        memory: ShareMemory,
        /// Guaranteed compute per card; 0 gets what is left.
        compute: Percent,
        /// How many distinct cards.
        count: u32,
    },
    /// `nvidia.com/gpu.shared: count` without a memory request: seats on time-sliced cards only.
    Seats {
        /// How many distinct cards.
        count: u32,
    },
    /// `nvidia.com/mig-<profile>: count`: slices that a card already has.
    Slices {
        /// The profile as in the resource name.
        profile: String,
        /// How many.
        count: u32,
    },
}

impl Demand {
    /// How many devices.
    pub fn count(&self) -> u32 {
        match self {
            Self::Cards { count } | Self::Share { count, .. } | Self::Seats { count } | Self::Slices { count, .. } => {
                *count
            }
        }
    }
}

/// The demands of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContainerDemand {
    /// The container's name.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// What it asks for, in a fixed order.
    pub demands: Vec<Demand>,
}

/// What a pod asks of GPUs: the containers that ask for something, and which cards will do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct GpuRequest {
    /// Containers with a demand, init containers first, in the pod's order.
    pub containers: Vec<ContainerDemand>,
    /// Which models will do.
    pub models: ModelPattern,
    /// If not empty, only these cards will do.
    pub uuids: Vec<String>,
}

impl GpuRequest {
    /// Whether no GPU is asked for.
    pub fn is_none(&self) -> bool {
        self.containers.is_empty()
    }
}

/// The outline of a request, for policies that reason about the mix of requests: how many cards at once,
/// and how much of each. Several different shares of one pod count as the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GpuShape {
    /// No GPU.
    None,
    /// So many whole cards.
    Cards(u32),
    /// A share on each of `count` cards.
    Share {
        /// Memory per card.
        memory: ShareMemory,
        /// Compute per card.
        compute: Percent,
        /// Cards.
        count: u32,
    },
    /// Seats or slices: sizes that the node decides.
    Fixed(u32),
}

impl GpuRequest {
    /// The most of what is `wanted` that is in use at once: by an init container beside the sidecars before it, or by
    /// sidecars and app containers together.
    pub(crate) fn peak(&self, wanted: impl Fn(&Demand) -> Option<u32>) -> u32 {
        let (mut running, mut sidecars, mut peak) = (0_u32, 0_u32, 0_u32);
        for container in &self.containers {
            let own = container.demands.iter().filter_map(&wanted).fold(0_u32, u32::saturating_add);
            match container.kind {
                ContainerKind::App => running = running.saturating_add(own),
                ContainerKind::Sidecar => {
                    running = running.saturating_add(own);
                    sidecars = sidecars.saturating_add(own);
                }
                ContainerKind::Init => peak = peak.max(sidecars.saturating_add(own)),
            }
        }
        peak.max(running)
    }

    /// The outline: the most cards that are in use at once.
    pub fn shape(&self) -> GpuShape {
        let cards = self.peak(|d| if let Demand::Cards { count } = d { Some(*count) } else { None });
        if cards > 0 {
            return GpuShape::Cards(cards);
        }
        let shares = self.containers.iter().flat_map(|c| &c.demands).filter_map(|d| match d {
            Demand::Share { memory, compute, .. } => Some((*memory, *compute)),
            _ => None,
        });
        if let Some((memory, compute)) = shares.max() {
            let count = self.peak(|d| if let Demand::Share { count, .. } = d { Some(*count) } else { None });
            return GpuShape::Share { memory, compute, count };
        }
        match self
            .peak(|d| if let Demand::Seats { count } | Demand::Slices { count, .. } = d { Some(*count) } else { None })
        {
            0 => GpuShape::None,
            count => GpuShape::Fixed(count),
        }
    }
}

/// Why a pod's GPU request makes no sense. Such a pod waits with this as its reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Error, Serialize, Deserialize)]
pub enum RequestError {
    /// Compute or a card count without memory.
    #[error(
        "container {container:?} asks for {resource} without gpu-scheduler/memory; add the memory per card, such as gpu-scheduler/memory: 8Gi"
    )]
    MemoryMissing {
        /// The container.
        container: String,
        /// The resource that stands alone.
        resource: String,
    },
    /// Whole cards and a share in one container.
    #[error("container {container:?} asks for both nvidia.com/gpu and a share (gpu-scheduler/memory); choose one")]
    WholeAndShare {
        /// The container.
        container: String,
    },
    /// A number that is out of range or cannot be read.
    #[error("{place}: {value:?} is not valid; {expected}")]
    Value {
        /// Container and resource, or annotation.
        place: String,
        /// What stands there.
        value: String,
        /// What should stand there.
        expected: String,
    },
}
