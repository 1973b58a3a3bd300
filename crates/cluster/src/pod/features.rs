//! Node features that a pod's spec cannot do without (KEP-5328, `component-helpers/nodedeclaredfeatures` of 1.37).

use crate::objects::{Container, PodSpec};

const RESTART_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";
const USER_NAMESPACES_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";
const VOLUME_BIND_MOUNT_OPTIONS: &str = "VolumeBindMountOptions";

/// Their names, sorted.
pub(super) fn needed(spec: &PodSpec) -> Vec<String> {
    let containers = || spec.init_containers.iter().chain(&spec.containers);
    let restarts_all = |c: &Container| c.restart_policy_rules.iter().any(|r| r.action == "RestartAllContainers");
    let mount_options = |c: &Container| c.volume_mounts.iter().any(|m| !m.bind_mount_options.is_empty());
    let features = [
        (containers().any(restarts_all), RESTART_ALL_CONTAINERS),
        (spec.host_network && spec.host_users == Some(false), USER_NAMESPACES_HOST_NETWORK),
        (containers().any(mount_options), VOLUME_BIND_MOUNT_OPTIONS),
    ];
    features.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| name.to_owned()).collect()
}
