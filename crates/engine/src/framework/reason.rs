//! Why not: a closed list of reasons, each with its numbers.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::framework::{PluginName, VolumeReason};
use crate::ledger::{Barred, NumaRoom, Shortage};
use crate::model::{GpuRequest, Mib, RequestError, Symbol, Symbols};

/// What a plugin says of a pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Fine.
    Pass,
    /// No, for these reasons.
    Reject {
        /// Whether nothing that could be freed on the node would help (Kubernetes'
        /// `UnschedulableAndUnresolvable`): preemption does not look there.
        permanent: bool,
        /// The reasons, at least one.
        reasons: SmallVec<[Reason; 1]>,
    },
}

impl Verdict {
    /// No, but freeing something on the node might help.
    pub fn unschedulable(reason: Reason) -> Self {
        Self::Reject { permanent: false, reasons: SmallVec::from_iter([reason]) }
    }
    /// No, and nothing freed would help.
    pub fn unresolvable(reason: Reason) -> Self {
        Self::Reject { permanent: true, reasons: SmallVec::from_iter([reason]) }
    }
}

/// Why one node does not do: the first plugin that said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The plugin.
    pub plugin: PluginName,
    /// Whether nothing that could be freed there would help.
    pub permanent: bool,
    /// Its reasons.
    pub reasons: SmallVec<[Reason; 1]>,
}

/// A resource of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceName {
    /// CPU, in milli-cores.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Local storage, in bytes.
    EphemeralStorage,
    /// Anything else, in its own units.
    Scalar(Symbol),
}

impl ResourceName {
    /// Its name in Kubernetes.
    pub fn name(self, symbols: &Symbols) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Scalar(symbol) => symbols.resolve(symbol),
        }
    }

    fn amount(self, n: i64) -> String {
        match self {
            Self::Cpu => format!("{n}m"),
            Self::Memory | Self::EphemeralStorage if n % (1 << 20) == 0 => format!("{}Mi", n >> 20),
            _ => n.to_string(),
        }
    }
}

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The pod wants another node by name.
    NodeName,
    /// The node is cordoned.
    NodeUnschedulable,
    /// It has a taint that the pod does not tolerate.
    UntoleratedTaint {
        /// The taint's key.
        key: Symbol,
    },
    /// `nodeSelector` or required node affinity does not match.
    NodeAffinity,
    /// Required node affinity by name contradicts itself.
    AffinityConflict,
    /// PreFilter plugins left the node out.
    Excluded {
        /// Which.
        plugins: SmallVec<[PluginName; 2]>,
    },
    /// PreFilter plugins left no node at all.
    NoneLeft {
        /// Which.
        plugins: SmallVec<[PluginName; 2]>,
    },
    /// A host port is taken.
    NodePorts {
        /// Which.
        port: u16,
    },
    /// No more pods.
    TooManyPods {
        /// Pods on the node.
        running: i64,
        /// Pods that it takes.
        max: i64,
    },
    /// Too little of a resource.
    Insufficient {
        /// Which.
        resource: ResourceName,
        /// Asked.
        asked: i64,
        /// Free.
        free: i64,
        /// There is in all.
        allocatable: i64,
    },
    /// The GPUs do not do.
    Gpu(Shortage),
    /// The node has GPUs, and nobody hands them out.
    GpusWithdrawn,
    /// The node hands out seats for shares and the pod asks for none.
    SeatMissing,
    /// The request makes no sense.
    Request(RequestError),
    /// A scheduling gate is closed.
    Gated {
        /// Which.
        gate: String,
    },
    /// Too many pods of the kind in the domain.
    TopologySpread,
    /// The node has no domain to count for.
    TopologyLabelMissing,
    /// No pod that this one has to be with.
    PodAffinity,
    /// A pod that this one must not be with.
    PodAntiAffinity,
    /// A pod that must not be with this one.
    ExistingPodsAntiAffinity,
    /// Volumes are why.
    Volume(VolumeReason),
    /// Kubelet declares too few features.
    NodeFeatures,
    /// The pod waits for resource claims.
    ResourceClaims,
    /// The pod's group is not there.
    PodGroupMissing {
        /// Its name.
        group: Arc<str>,
    },
    /// Too few pods of the group are there.
    PodGroupIncomplete {
        /// Its name.
        group: Arc<str>,
        /// Pods that there are.
        known: u32,
        /// Pods that start together.
        wanted: u32,
    },
    /// Pods that room is being made for would not fit any more.
    Nominated,
    /// A plugin said no in its own words.
    Plugin(String),
}

impl Reason {
    /// The text that nodes are counted under: as kube-scheduler words it, or in its manner.
    pub fn text<'a>(&'a self, symbols: &'a Symbols) -> Cow<'a, str> {
        Cow::Borrowed(match self {
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::NodeUnschedulable => "node(s) were unschedulable",
            Self::UntoleratedTaint { .. } => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::AffinityConflict => "pod affinity terms conflict",
            Self::Excluded { plugins } => {
                return Cow::Owned(format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" ")));
            }
            Self::NoneLeft { plugins } => {
                return Cow::Owned(match plugins.as_slice() {
                    [one] => format!("node(s) didn't satisfy plugin {one}"),
                    several => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", several.join(" ")),
                });
            }
            Self::Volume(reason) => return reason.text(),
            Self::NodePorts { .. } => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods { .. } => "Too many pods",
            Self::Insufficient { resource, .. } => {
                return Cow::Owned(format!("Insufficient {}", resource.name(symbols)));
            }
            Self::Gpu(shortage) => match shortage {
                Shortage::NoGpu => "node(s) had no GPU",
                Shortage::NoMatch => "node(s) had no GPU of the requested model or UUID",
                Shortage::Cards { .. } => "node(s) had too few free GPUs",
                Shortage::Memory { .. } => "node(s) had no GPU with enough free memory",
                Shortage::Compute { .. } => "node(s) had no GPU with enough free compute",
                Shortage::ShareCards { .. } => "node(s) had room for the share on too few GPUs",
                Shortage::MemoryUnknown => "node(s) didn't state their GPU memory",
                Shortage::NotShareable => "node(s) had only time-sliced or partitioned GPUs",
                Shortage::Seats { .. } => "node(s) had too few free seats on time-sliced GPUs",
                Shortage::Slices { profile, .. } => {
                    return Cow::Owned(format!("node(s) had too few free MIG slices {profile}"));
                }
                Shortage::Numa { chosen: None, .. } => "node(s) had no GPUs on NUMA nodes that kubelet would admit",
                Shortage::Numa { .. } => "node(s) had too few free GPUs on the NUMA nodes that kubelet would choose",
                Shortage::Combination => "node(s) had GPUs for each container but not for all together",
            },
            Self::GpusWithdrawn => "node(s) had GPUs that nobody hands out",
            Self::SeatMissing => "node(s) hand out seats for GPU shares and the pod asks for none",
            Self::Request(_) => "invalid GPU request",
            Self::Gated { .. } => "pod has a closed scheduling gate",
            Self::TopologySpread => "node(s) didn't match pod topology spread constraints",
            Self::TopologyLabelMissing => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingPodsAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::NodeFeatures => "node(s) didn't match Pod's required features",
            Self::ResourceClaims => "pod has resource claims, which are not allocated by this version",
            Self::PodGroupMissing { group } => {
                return Cow::Owned(format!("waiting for pod group {group}, which does not exist"));
            }
            // Without how many there are: each that comes would have all others say so again.
            Self::PodGroupIncomplete { group, wanted, .. } => {
                return Cow::Owned(format!(
                    "waiting for pod group {group}: {wanted} of its pods start together, and fewer exist"
                ));
            }
            Self::Nominated => "node(s) had no room beside pods that are nominated to them",
            Self::Plugin(text) => text,
        })
    }

    /// Whether a pod that is kept out of the queue for it says so: a closed gate is told by the API server.
    pub fn is_told(&self) -> bool {
        matches!(self, Self::PodGroupMissing { .. } | Self::PodGroupIncomplete { .. })
    }

    /// How far this node is from fitting, in the reason's own units; `None` where there is no distance.
    pub fn missing(&self) -> Option<u64> {
        let lack = |asked: i64, free: i64| u64::try_from(asked.saturating_sub(free)).unwrap_or(0);
        match self {
            Self::TooManyPods { running, max } => Some(lack(running.saturating_add(1), *max)),
            Self::Insufficient { asked, free, .. } => Some(lack(*asked, *free)),
            Self::Gpu(shortage) => match shortage {
                Shortage::Cards { asked, free, .. }
                | Shortage::Seats { asked, free, .. }
                | Shortage::Slices { asked, free, .. }
                | Shortage::ShareCards { asked, fitting: free, .. } => Some(u64::from(asked.saturating_sub(*free))),
                Shortage::Memory { asked, free, .. } => Some(asked.saturating_sub(*free).0),
                Shortage::Compute { asked, free, .. } => Some(u64::from(asked.saturating_sub(*free).0)),
                Shortage::Numa { asked, chosen, nodes, .. } => {
                    let within = nodes.iter().filter(|n| chosen.is_none_or(|set| set.contains(n.node)));
                    let free = within.map(|n| n.free);
                    let free = if chosen.is_some() { free.sum() } else { free.max().unwrap_or(0) };
                    Some(u64::from(asked.saturating_sub(free)))
                }
                Shortage::MemoryUnknown => Some(0),
                Shortage::NoGpu | Shortage::NoMatch | Shortage::NotShareable | Shortage::Combination => None,
            },
            Self::SeatMissing | Self::GpusWithdrawn | Self::NodePorts { .. } => Some(0),
            Self::UntoleratedTaint { .. } => Some(0),
            _ => None,
        }
    }

    /// The numbers, or what to do about it, for one node.
    pub fn detail(&self, symbols: &Symbols) -> Option<String> {
        Some(match self {
            Self::UntoleratedTaint { key } => format!("taint {}", symbols.resolve(*key)),
            Self::NodePorts { port } => format!("host port {port} is taken"),
            Self::TooManyPods { running, max } => format!("{running} of {max} pods"),
            Self::Insufficient { resource, asked, free, allocatable } => {
                let (asked, free, all) =
                    (resource.amount(*asked), resource.amount((*free).max(0)), resource.amount(*allocatable));
                format!("{free} of {all} {} free, {asked} asked", resource.name(symbols))
            }
            Self::Gpu(shortage) => return gpu_detail(shortage),
            Self::GpusWithdrawn => {
                "nothing is allocatable of nvidia.com/gpu; see whether the device plugin runs".into()
            }
            Self::SeatMissing => {
                "add nvidia.com/gpu.shared: 1 to the container's limits, or install the admission policy".into()
            }
            _ => return None,
        })
    }
}

fn gpu_detail(shortage: &Shortage) -> Option<String> {
    Some(match shortage {
        Shortage::Cards { asked, free, total, barred } => {
            format!("{free} of {total} GPUs free, {asked} asked{}", remarks(barred, false))
        }
        Shortage::Memory { card, asked, free, largest, .. } if asked > largest => {
            format!("GPU {card} has {free} free and {asked} is asked, more than the largest card's {largest}")
        }
        Shortage::Memory { card, asked, free, barred, .. } => {
            format!("GPU {card} has {free} free, {asked} asked{}", remarks(barred, true))
        }
        Shortage::Compute { card, asked, free } => format!("GPU {card} has {free} compute free, {asked} asked"),
        Shortage::ShareCards { asked, fitting, total } => {
            format!("the share fits on {fitting} of {total} GPUs, {asked} distinct ones asked")
        }
        Shortage::MemoryUnknown => {
            "label nvidia.com/gpu.memory is missing and no GPUNodeState reports it; run the node agent or set the label (MiB)".into()
        }
        Shortage::Seats { asked, free, total } => format!("{free} of {total} time-sliced GPUs have a free seat, {asked} asked"),
        Shortage::Slices { profile, asked, free, total } => {
            format!("{free} of {total} slices {profile} free, {asked} asked")
        }
        Shortage::Numa { policy, asked, chosen, nodes } => {
            let tell = |n: &NumaRoom, free: u32| format!("NUMA node {} has {free} of {} free", n.node, n.total);
            match chosen {
                None => {
                    let nodes: Vec<_> = nodes.iter().map(|n| tell(n, n.available)).collect();
                    format!("topology manager policy {policy}, {asked} asked: {}", nodes.join(", "))
                }
                Some(set) => {
                    let nodes: Vec<_> = nodes.iter().map(|n| tell(n, n.free)).collect();
                    format!("topology manager policy {policy} takes {set} first, {asked} asked: {}", nodes.join(", "))
                }
            }
        }
        Shortage::NoGpu | Shortage::NoMatch | Shortage::NotShareable | Shortage::Combination => return None,
    })
}

/// What is the matter with cards, or with the `one` that is spoken of, besides that pods hold them.
fn remarks(barred: &Barred, one: bool) -> String {
    let mut remarks = Vec::new();
    for (count, what) in [(barred.unhealthy, "unhealthy"), (barred.overcommitted, "overcommitted")] {
        match count {
            0 => {}
            _ if one => remarks.push(what.to_owned()),
            1 => remarks.push(format!("1 is {what}")),
            n => remarks.push(format!("{n} are {what}")),
        }
    }
    if barred.foreign > Mib(0) {
        remarks.push(format!("{} used by processes without a grant", barred.foreign));
    }
    if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) }
}

/// What to say of a request in general, where no card of the cluster matches its model or UUIDs.
pub(super) fn describe_wish(request: &GpuRequest) -> String {
    let mut wishes = Vec::new();
    if !request.models.is_any() {
        wishes.push(format!("model {:?}", request.models.to_string()));
    }
    if !request.uuids.is_empty() {
        wishes.push(format!("UUID {}", request.uuids.join(", ")));
    }
    wishes.join(" and ")
}
