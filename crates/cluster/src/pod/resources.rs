//! Containers, and what they and their pod ask of a node.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{Container, ContainerKind, Demand, HostPort, PodLevel, RequestError, ResourceList};

use crate::objects::{self, Quantities};
use crate::problem::Finding;
use crate::quantity::{Unreadable, read_list};

/// The resource part of a pod.
pub(super) struct PodResources {
    pub containers: Vec<Container>,
    pub pod_level: PodLevel,
    pub overhead: ResourceList,
    /// Set where an amount in the spec cannot be read: a pod is not placed by half of what it asks.
    pub error: Option<RequestError>,
}

/// Reads the containers of `pod`, init containers first, with the GPU `demands` of each. `keep` says which
/// resources are real.
pub(super) fn read(
    pod: &objects::Pod,
    keep: impl Fn(&str) -> bool + Copy,
    demands: Vec<Vec<Demand>>,
    findings: &mut Vec<Finding>,
) -> PodResources {
    let objects::Pod { spec, status, .. } = pod;
    let mut reader = Reader { keep, bad_spec: Vec::new(), bad_status: Vec::new(), findings: Vec::new() };
    let mut demands = demands.into_iter();
    let mut containers = Vec::with_capacity(spec.init_containers.len() + spec.containers.len());
    let init = (&spec.init_containers, "initContainers", &status.init_container_statuses, "initContainerStatuses");
    let app = (&spec.containers, "containers", &status.container_statuses, "containerStatuses");
    for (list, list_name, statuses, statuses_name) in [init, app] {
        let by_name: BTreeMap<&str, (usize, &objects::ContainerStatus)> =
            statuses.iter().enumerate().map(|(i, s)| (s.name.as_str(), (i, s))).collect();
        for (i, object) in list.iter().enumerate() {
            let kind = match (list_name, object.restart_policy.as_str()) {
                ("containers", _) => ContainerKind::App,
                (_, "Always") => ContainerKind::Sidecar,
                _ => ContainerKind::Init,
            };
            let field = format!("spec.{list_name}[{i}]");
            let mut container =
                Container::new(&object.name, kind, reader.requests(&object.resources, &format!("{field}.resources")));
            container.gpu = demands.next().unwrap_or_default();
            container.ports = reader.ports(object, &field, spec.host_network);
            if let Some((j, status)) = by_name.get(object.name.as_str()) {
                let field = format!("status.{statuses_name}[{j}]");
                container.allocated =
                    reader.status(status.allocated_resources.as_ref(), &format!("{field}.allocatedResources"));
                let actuated = status.resources.as_ref().map(|r| &r.requests).filter(|r| !r.is_empty());
                container.actuated = reader.status(actuated, &format!("{field}.resources.requests"));
            }
            containers.push(container);
        }
    }
    let pod_level = reader.pod_level(pod, &containers);
    let overhead = read_list(&spec.overhead, "spec.overhead", keep, &mut reader.bad_spec);
    let error = reader.bad_spec.first().map(Unreadable::request_error);
    findings.extend(reader.bad_spec.iter().chain(&reader.bad_status).map(Unreadable::finding));
    findings.extend(reader.findings);
    PodResources { containers, pod_level, overhead, error }
}

struct Reader<K> {
    keep: K,
    bad_spec: Vec<Unreadable>,
    bad_status: Vec<Unreadable>,
    findings: Vec<Finding>,
}

impl<K: Fn(&str) -> bool + Copy> Reader<K> {
    /// Requests, with the limit where a resource has no request, as the API server fills them in.
    fn requests(&mut self, resources: &objects::ResourceRequirements, field: &str) -> ResourceList {
        let keep = self.keep;
        let mut amounts = read_list(&resources.requests, &format!("{field}.requests"), keep, &mut self.bad_spec);
        let unasked = |name: &str| keep(name) && !resources.requests.contains_key(name);
        amounts.append(&mut read_list(&resources.limits, &format!("{field}.limits"), unasked, &mut self.bad_spec));
        amounts
    }

    fn status(&mut self, list: Option<&Quantities>, field: &str) -> Option<ResourceList> {
        list.map(|list| read_list(list, field, self.keep, &mut self.bad_status))
    }

    fn pod_level(&mut self, pod: &objects::Pod, containers: &[Container]) -> PodLevel {
        let mut requests = self.requests(&pod.spec.resources, "spec.resources");
        // Where only the pod's limit is given and containers ask for themselves, their sum is the request.
        let stated = &pod.spec.resources.requests;
        requests
            .retain(|name, _| stated.contains_key(name) || !containers.iter().any(|c| c.requests.contains_key(name)));
        let status = &pod.status;
        PodLevel {
            requests,
            allocated: self.status(status.allocated_resources.as_ref(), "status.allocatedResources"),
            actuated: self.status(status.resources.as_ref().map(|r| &r.requests), "status.resources.requests"),
        }
    }

    /// The host ports of a container of any kind.
    fn ports(&mut self, container: &objects::Container, field: &str, host_network: bool) -> Vec<HostPort> {
        let mut ports = Vec::new();
        for (i, port) in container.ports.iter().enumerate() {
            let (number, name) = match port.host_port {
                0 if host_network => (port.container_port, "containerPort"),
                number => (number, "hostPort"),
            };
            match u16::try_from(number) {
                Ok(0) => {}
                Ok(number) => {
                    ports.push(HostPort { ip: port.host_ip.clone(), protocol: port.protocol.clone(), port: number })
                }
                Err(_) => self.findings.push(Finding::new(
                    format!("{field}.ports[{i}].{name}"),
                    format!("{number} is not a port, and it was left out"),
                    "write a number from 1 to 65535",
                )),
            }
        }
        ports
    }
}
