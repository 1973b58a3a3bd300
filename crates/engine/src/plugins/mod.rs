//! The plugins, one file each, under the names that Kubernetes has for them where it has one.

mod balanced_allocation;
mod best_fit;
mod blocks;
mod catalogue;
mod default_preemption;
mod domains;
mod dot_product;
mod dynamic_resources;
mod fgd;
mod gang_scheduling;
mod go_float;
mod gpu_clustering;
mod gpu_fit;
mod gpu_packing;
mod image_locality;
mod inter_pod_affinity;
mod least_allocated;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod random_choice;
mod scarcity;
mod scheduling_gates;
mod shape_value;
mod simple_fragmentation;
mod stranding;
mod taint_toleration;
mod volume_binding;
mod volume_matching;
mod volume_restrictions;
mod volume_zone;

pub use balanced_allocation::NodeResourcesBalancedAllocation;
pub use best_fit::BestFit;
pub use blocks::Blocks;
pub(crate) use catalogue::{cyclic, filters, pre_filters, scores};
pub use catalogue::{default_weight, is_required, names};
pub use default_preemption::DefaultPreemption;
pub use dot_product::DotProduct;
pub use dynamic_resources::DynamicResources;
pub use fgd::{Fgd, fragment};
pub use gang_scheduling::GangScheduling;
pub use gpu_clustering::GpuClustering;
pub use gpu_fit::GpuFit;
pub use gpu_packing::GpuPacking;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use least_allocated::LeastAllocated;
pub use node_affinity::NodeAffinity;
pub use node_declared_features::NodeDeclaredFeatures;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources_fit::NodeResourcesFit;
pub use node_unschedulable::NodeUnschedulable;
pub use node_volume_limits::NodeVolumeLimits;
pub use pod_topology_spread::PodTopologySpread;
pub use random_choice::RandomChoice;
pub use scarcity::Scarcity;
pub use scheduling_gates::SchedulingGates;
pub use shape_value::ShapeValue;
pub use simple_fragmentation::SimpleFragmentation;
pub use stranding::Stranding;
pub use taint_toleration::TaintToleration;
pub use volume_binding::VolumeBinding;
pub use volume_restrictions::VolumeRestrictions;
pub use volume_zone::VolumeZone;

use crate::model::Cost;

/// One point of a published policy's score (0 to 100, highest wins) as a cost: 10 milli-GPU, the same as
/// a preference point.
pub(crate) fn published_points(points: i64) -> i64 {
    (-Cost::milli(10).times(points)).0
}
