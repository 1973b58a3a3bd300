//! Finds the container of a process among the node's pods.

use std::collections::BTreeMap;

use crate::host::ContainerRef;
use crate::pods::NodePod;

/// The pods of a node, by what control groups name.
#[derive(Debug)]
pub struct PodIndex<'a> {
    pods: &'a [NodePod],
    by_container: BTreeMap<&'a str, (usize, usize)>,
    by_uid: BTreeMap<&'a str, usize>,
}

/// Whose a process is: places in the list of pods and in the pod's list of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The pod.
    pub pod: usize,
    /// The container; `None` where its id is not known yet.
    pub container: Option<usize>,
}

impl<'a> PodIndex<'a> {
    /// Of these pods. `O(containers)`.
    pub fn new(pods: &'a [NodePod]) -> Self {
        let mut by_container = BTreeMap::new();
        let mut by_uid = BTreeMap::new();
        for (pod, known) in pods.iter().enumerate() {
            by_uid.insert(&*known.uid.0, pod);
            for (container, known) in known.containers.iter().enumerate() {
                if let Some(id) = &known.id {
                    by_container.insert(id.as_str(), (pod, container));
                }
            }
        }
        Self { pods, by_container, by_uid }
    }

    /// The pods.
    pub fn pods(&self) -> &'a [NodePod] {
        self.pods
    }

    /// Whose container this is; `None` if no pod of the node explains it. The container's id counts first: the UID in the
    /// control group of a static pod is not the one that the API server knows.
    pub fn owner(&self, container: &ContainerRef) -> Option<Owner> {
        let by_id = container.container_id.as_deref().and_then(|id| self.by_container.get(id));
        if let Some((pod, container)) = by_id {
            return Some(Owner { pod: *pod, container: Some(*container) });
        }
        let pod = *self.by_uid.get(container.pod_uid.as_deref()?)?;
        // With one container there is no doubt, id or not.
        let only = self.pods[pod].containers.len() == 1;
        Some(Owner { pod, container: only.then_some(0) })
    }
}
