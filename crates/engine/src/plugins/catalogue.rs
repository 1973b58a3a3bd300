//! The plugins that a configuration can choose by name.

use crate::framework::{CyclePlugin, ExtensionPoint, Filter, PluginName, PreFilter, Score};
use crate::plugins::{
    BestFit, Blocks, DotProduct, DynamicResources, Fgd, GpuClustering, GpuFit, GpuPacking, ImageLocality,
    InterPodAffinity, LeastAllocated, NodeAffinity, NodeDeclaredFeatures, NodeName, NodePorts,
    NodeResourcesBalancedAllocation, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits, PodTopologySpread,
    RandomChoice, Scarcity, ShapeValue, SimpleFragmentation, Stranding, TaintToleration, VolumeBinding,
    VolumeRestrictions, VolumeZone,
};

/// All PreFilter plugins.
pub(crate) fn pre_filters() -> Vec<Box<dyn PreFilter>> {
    vec![Box::new(GpuFit), Box::new(NodeName), Box::new(NodeAffinity), Box::new(DynamicResources)]
}

/// All Filter plugins, in kube-scheduler's order.
pub(crate) fn filters() -> Vec<Box<dyn Filter>> {
    vec![
        Box::new(NodeName),
        Box::new(NodeUnschedulable),
        Box::new(TaintToleration),
        Box::new(NodeAffinity),
        Box::new(NodePorts),
        Box::new(NodeResourcesFit),
        Box::new(GpuFit),
    ]
}

/// All Score plugins.
pub(crate) fn scores() -> Vec<Box<dyn Score>> {
    vec![
        Box::new(TaintToleration),
        Box::new(NodeAffinity),
        Box::new(Stranding),
        Box::new(ShapeValue),
        Box::new(Scarcity),
        Box::new(Blocks),
        Box::new(Fgd),
        Box::new(BestFit),
        Box::new(GpuPacking),
        Box::new(GpuClustering),
        Box::new(DotProduct),
        Box::new(RandomChoice::new(0)),
        Box::new(SimpleFragmentation),
        Box::new(LeastAllocated),
        Box::new(NodeResourcesBalancedAllocation),
    ]
}

/// All plugins that look at the whole cluster, in kube-scheduler's order: those that filter, and those that score.
pub(crate) fn cyclic(point: ExtensionPoint) -> Vec<Box<dyn CyclePlugin>> {
    match point {
        ExtensionPoint::PreFilter => Vec::new(),
        ExtensionPoint::Filter => {
            vec![
                Box::new(VolumeRestrictions),
                Box::new(NodeVolumeLimits),
                Box::new(VolumeBinding),
                Box::new(VolumeZone),
                Box::new(PodTopologySpread),
                Box::new(InterPodAffinity),
                Box::new(NodeDeclaredFeatures),
            ]
        }
        ExtensionPoint::Score => {
            vec![
                Box::new(VolumeBinding),
                Box::new(PodTopologySpread),
                Box::new(InterPodAffinity),
                Box::new(ImageLocality),
            ]
        }
    }
}

/// The names of the plugins that can be chosen at a point.
pub fn names(point: ExtensionPoint) -> Vec<PluginName> {
    let mut names: Vec<_> = match point {
        ExtensionPoint::PreFilter => pre_filters().iter().map(|p| p.name()).collect(),
        ExtensionPoint::Filter => filters().iter().map(|p| p.name()).collect(),
        ExtensionPoint::Score => scores().iter().map(|p| p.name()).collect(),
    };
    names.extend(cyclic(point).iter().map(|p| p.name()));
    names
}

/// Whether a plugin must stay: without `GpuFit` a node could be taken for one that has no card for the pod.
pub fn is_required(point: ExtensionPoint, name: &str) -> bool {
    match point {
        ExtensionPoint::PreFilter | ExtensionPoint::Filter => name == PreFilter::name(&GpuFit),
        ExtensionPoint::Score => false,
    }
}

/// The weight of a Score plugin that is enabled without one: kube-scheduler's for its own plugins.
pub fn default_weight(name: &str) -> i64 {
    match name {
        "TaintToleration" => 3,
        "NodeAffinity" | "PodTopologySpread" | "InterPodAffinity" => 2,
        _ => 1,
    }
}
