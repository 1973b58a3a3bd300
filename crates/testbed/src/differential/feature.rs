//! What a generated cluster or pod can have.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A kind of constraint. The generator uses those that are switched on, and every step says which it used, so that
/// a disagreement can be put down to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Requests of CPU, memory and local storage.
    Resources,
    /// Nodes that take few pods.
    PodLimit,
    /// Extended resources and huge pages.
    ExtendedResources,
    /// Init containers.
    InitContainers,
    /// Sidecars: init containers that go on.
    Sidecars,
    /// Requests of the pod as a whole.
    PodLevelResources,
    /// Pods on their nodes that were resized, or are about to be.
    ResizedPods,
    /// What a runtime class adds.
    Overhead,
    /// Host ports, and pods on their node's network.
    HostPorts,
    /// Taints that keep pods away, and tolerations.
    Taints,
    /// Taints that pods rather avoid.
    SoftTaints,
    /// Cordoned nodes.
    Cordons,
    /// Pods that are being deleted.
    TerminatingPods,
    /// `nodeSelector`.
    NodeSelector,
    /// Required node affinity on labels.
    NodeAffinity,
    /// Required node affinity on names.
    NodeNames,
    /// Preferred node affinity.
    PreferredNodeAffinity,
    /// Pods of different priorities, none of which preempts.
    Priorities,
    /// Several pods at once that compete for one node: the higher priority goes first.
    PriorityOrder,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity.
    PodAntiAffinity,
    /// Preferred pod affinity.
    PreferredPodAffinity,
    /// Preferred pod anti-affinity.
    PreferredPodAntiAffinity,
    /// Pods of several namespaces, and terms that select namespaces.
    Namespaces,
    /// Topology spread that must hold.
    HardSpread,
    /// Topology spread that had better hold.
    SoftSpread,
    /// `minDomains`, `nodeAffinityPolicy`, `nodeTaintsPolicy` and `matchLabelKeys` of a constraint.
    SpreadPolicies,
    /// Services: their pods are spread by default.
    DefaultSpread,
    /// Images on nodes.
    Images,
    /// Claims bound to volumes with node affinity.
    BoundVolumes,
    /// Claims bound to volumes with zone labels.
    VolumeZones,
    /// Claims that one pod at a time may use.
    ReadWriteOncePod,
    /// Claims that are missing, lost, or wait for somebody else.
    BrokenClaims,
    /// Drivers that attach few volumes to a node.
    VolumeLimits,
    /// Claims that are bound when their pod is placed: to volumes that are there, or by a provisioner.
    LateBinding,
    /// Pods that may preempt others.
    Preemption,
    /// Budgets that preemption rather keeps.
    DisruptionBudgets,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 37] = [
        Self::Resources,
        Self::PodLimit,
        Self::ExtendedResources,
        Self::InitContainers,
        Self::Sidecars,
        Self::PodLevelResources,
        Self::ResizedPods,
        Self::Overhead,
        Self::HostPorts,
        Self::Taints,
        Self::SoftTaints,
        Self::Cordons,
        Self::TerminatingPods,
        Self::NodeSelector,
        Self::NodeAffinity,
        Self::NodeNames,
        Self::PreferredNodeAffinity,
        Self::Priorities,
        Self::PriorityOrder,
        Self::PodAffinity,
        Self::PodAntiAffinity,
        Self::PreferredPodAffinity,
        Self::PreferredPodAntiAffinity,
        Self::Namespaces,
        Self::HardSpread,
        Self::SoftSpread,
        Self::SpreadPolicies,
        Self::DefaultSpread,
        Self::Images,
        Self::BoundVolumes,
        Self::VolumeZones,
        Self::ReadWriteOncePod,
        Self::BrokenClaims,
        Self::VolumeLimits,
        Self::LateBinding,
        Self::Preemption,
        Self::DisruptionBudgets,
    ];

    /// Those in which a minor decides as the newest does, which is the one that we follow.
    #[must_use]
    pub fn of_minor(minor: &str) -> Features {
        // Up to 1.36 the largest of what is asked for, allocated and in force is taken container by container; since then
        // of the pod's three sums.
        Self::ALL.into_iter().filter(|feature| *feature != Self::ResizedPods || minor != "1.36").collect()
    }

    /// Its name, as in `DIFFERENTIAL_FEATURES`.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for character in format!("{self:?}").chars() {
            if character.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(character.to_ascii_lowercase());
        }
        name
    }

    /// Whether it is a matter of nodes or of pods that are there already, and so concerns every step of its cluster.
    #[must_use]
    pub fn is_of_cluster(self) -> bool {
        use Feature as F;
        matches!(
            self,
            F::PodLimit
                | F::ResizedPods
                | F::Taints
                | F::SoftTaints
                | F::Cordons
                | F::TerminatingPods
                | F::Namespaces
                | F::DefaultSpread
                | F::Images
        )
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl FromStr for Feature {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|feature| feature.name() == name)
            .ok_or_else(|| format!("there is no feature {name:?}; known are {}", known()))
    }
}

/// Features that are on.
pub type Features = BTreeSet<Feature>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_differ_in_what_counts_of_a_resized_pod() {
        assert_eq!(Feature::of_minor("1.37"), Feature::ALL.into());
        let missing: Vec<Feature> =
            Feature::ALL.into_iter().filter(|f| !Feature::of_minor("1.36").contains(f)).collect();
        assert_eq!(missing, [Feature::ResizedPods]);
    }

    #[test]
    fn every_feature_has_one_name_and_is_found_by_it() {
        let names: BTreeSet<String> = Feature::ALL.into_iter().map(Feature::name).collect();
        assert_eq!(names.len(), Feature::ALL.len());
        for feature in Feature::ALL {
            assert_eq!(feature.name().parse(), Ok(feature));
        }
        assert_eq!(Feature::ReadWriteOncePod.name(), "read-write-once-pod");
        assert!("gangs".parse::<Feature>().unwrap_err().starts_with("there is no feature \"gangs\"; known are resour"));
    }
}
