//! Finds containers among the node's pods: by what control groups name, and by what kubelet calls them.

use std::collections::BTreeMap;

use crate::checkpoint::Listed;
use crate::host::ContainerRef;
use crate::pods::NodePod;

/// The pods of a node, by the names that others have for them.
#[derive(Debug)]
pub(super) struct PodIndex<'a> {
    pods: &'a [NodePod],
    by_container: BTreeMap<&'a str, (usize, usize)>,
    by_uid: BTreeMap<&'a str, usize>,
    by_name: BTreeMap<(&'a str, &'a str), usize>,
}

/// Whose a process or a device is: places in the list of pods and in the pod's list of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
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
        let mut by_name = BTreeMap::new();
        for (pod, known) in pods.iter().enumerate() {
            by_uid.insert(&*known.uid.0, pod);
            by_name.insert((&*known.namespace, &*known.name), pod);
            for (container, known) in known.containers.iter().enumerate() {
                if let Some(id) = &known.id {
                    by_container.insert(id.as_str(), (pod, container));
                }
            }
        }
        Self { pods, by_container, by_uid, by_name }
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

    /// The container that kubelet lists; `None` if the API server has not shown it, or shows it no more.
    pub fn listed(&self, item: &Listed) -> Option<Owner> {
        let pod = *self.by_name.get(&(&*item.namespace, &*item.name))?;
        let container = self.pods[pod].containers.iter().position(|known| known.name == item.container)?;
        Some(Owner { pod, container: Some(container) })
    }
}
