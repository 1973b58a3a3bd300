//! The named profiles.

use std::str::FromStr;

use thiserror::Error;

use crate::framework::{Profile, ShareMode};
use crate::model::Cost;
use crate::plugins::{
    BestFit, Blocks, DefaultPreemption, DotProduct, DynamicResources, Fgd, GangScheduling, GpuClustering, GpuFit,
    GpuPacking, ImageLocality, InterPodAffinity, LeastAllocated, NodeAffinity, NodeDeclaredFeatures, NodeName,
    NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits,
    PodTopologySpread, RandomChoice, Scarcity, SchedulingGates, ShapeValue, SimpleFragmentation, Stranding,
    TaintToleration, VolumeBinding, VolumeRestrictions, VolumeZone,
};

/// A policy: a profile with a name. All share the same filters; they differ in what they find good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Shadow-price packing: the default.
    ShadowPrice,
    /// Fragmentation gradient descent (USENIX ATC 2023).
    Fgd,
    /// The node that is left fullest.
    BestFit,
    /// Used cards first, then used nodes, then free ones.
    Packing,
    /// Like with like.
    Clustering,
    /// The smallest dot product of demand and free resources.
    DotProduct,
    /// Any node; the seed decides.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Full or empty memory is good.
    SimpleFragmentation,
    /// What a cluster does today: whole cards, least allocated node first.
    Spread,
}

/// A name that is no policy's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown policy {name:?}; known are {known}")]
pub struct UnknownPolicy {
    name: String,
    known: String,
}

impl Policy {
    /// All of them; `random` with seed 0.
    pub const ALL: [Self; 9] = [
        Self::ShadowPrice,
        Self::Fgd,
        Self::BestFit,
        Self::Packing,
        Self::Clustering,
        Self::DotProduct,
        Self::Random { seed: 0 },
        Self::SimpleFragmentation,
        Self::Spread,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShadowPrice => "shadow-price",
            Self::Fgd => "fgd",
            Self::BestFit => "best-fit",
            Self::Packing => "packing",
            Self::Clustering => "clustering",
            Self::DotProduct => "dot-product",
            Self::Random { .. } => "random",
            Self::SimpleFragmentation => "simple-fragmentation",
            Self::Spread => "spread",
        }
    }

    /// The policy with this seed, where it has one.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        match self {
            Self::Random { .. } => Self::Random { seed },
            other => other,
        }
    }

    /// Its profile: filters in kube-scheduler's order, preferences with kube-scheduler's weights, and the
    /// policy's own score.
    pub fn profile(self) -> Profile {
        let profile = Profile::default()
            .with_pre_enqueue(SchedulingGates)
            .with_pre_enqueue(GangScheduling)
            .with_pre_filter(GpuFit)
            .with_pre_filter(NodeName)
            .with_pre_filter(NodeAffinity)
            .with_pre_filter(DynamicResources)
            .with_filter(NodeName)
            .with_filter(NodeUnschedulable)
            .with_filter(TaintToleration)
            .with_filter(NodeAffinity)
            .with_filter(NodePorts)
            .with_filter(NodeResourcesFit)
            .with_filter(GpuFit)
            .with_post_filter(DefaultPreemption)
            .with_score(TaintToleration, 3)
            .with_score(NodeAffinity, 2)
            .with_cyclic(VolumeRestrictions, true, None)
            .with_cyclic(NodeVolumeLimits, true, None)
            .with_cyclic(VolumeBinding, true, Some(1))
            .with_cyclic(VolumeZone, true, None)
            .with_pre_bind(VolumeBinding)
            .with_cyclic(PodTopologySpread, true, Some(2))
            .with_cyclic(InterPodAffinity, true, Some(2))
            .with_cyclic(ImageLocality, false, Some(1))
            .with_cyclic(NodeDeclaredFeatures, true, None);
        match self {
            Self::ShadowPrice => profile
                .weighing_cards()
                .with_score(Stranding, 1)
                .with_score(ShapeValue, 1)
                .with_score(Scarcity, 1)
                .with_score(Blocks, 1)
                .tying_within(Cost::milli(150)),
            Self::Fgd => profile.weighing_cards().with_score(Fgd, 1),
            Self::BestFit => profile.with_score(BestFit, 1),
            Self::Packing => profile.with_score(GpuPacking, 1),
            Self::Clustering => profile.with_score(GpuClustering, 1),
            Self::DotProduct => profile.with_score(DotProduct, 1),
            Self::Random { seed } => profile.with_score(RandomChoice::new(seed), 1),
            Self::SimpleFragmentation => profile.with_score(SimpleFragmentation, 1),
            Self::Spread => profile
                .with_share_mode(ShareMode::WholeCards)
                .with_score(LeastAllocated, 1)
                .with_score(NodeResourcesBalancedAllocation, 1),
        }
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned(), known: known() })
    }
}
