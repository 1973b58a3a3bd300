//! What a pod asks of a node: the sum over its containers as Kubernetes counts it.
//!
//! Source: `k8s.io/component-helpers/resource` of 1.37 and KEP-753 (sidecars), KEP-1287 (in-place
//! resize), KEP-2837 (pod-level resources).

use crate::model::{Container, ContainerKind, Pod, Quantity, ResourceList};

/// CPU that a container without a request counts as when nodes are scored.
const DEFAULT_CPU: Quantity = Quantity::millis(100);
/// Memory that a container without a request counts as when nodes are scored.
const DEFAULT_MEMORY: Quantity = Quantity::units(200 * 1024 * 1024);

/// A pod's requests, for fitting and for scoring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRequests {
    /// What must fit.
    pub effective: ResourceList,
    /// CPU and memory with the defaults for containers that state none.
    pub non_zero: ResourceList,
}

/// The effective request of `pod`. A placed pod counts by its status too: the largest of what its spec
/// asks, what kubelet allocated and what is in force. `O(containers * resources)`.
pub fn effective_requests(pod: &Pod) -> ResourceList {
    let placed = pod.assignment.is_some();
    let mut total = if placed { placed_containers(pod) } else { aggregate(&pod.containers, |c| &c.requests) };
    for (name, amount) in pod_level(pod, placed) {
        total.insert(name, amount);
    }
    add(&mut total, &pod.overhead);
    total
}

/// As [`effective_requests`], with 100m CPU and 200 MiB for containers that state none: used for scores
/// only. An explicit 0 stays 0; a pod-level request replaces the sum.
pub fn non_zero_requests(pod: &Pod) -> ResourceList {
    let with_defaults: Vec<Container> = pod
        .containers
        .iter()
        .map(|c| {
            let mut c = c.clone();
            c.requests.entry("cpu".into()).or_insert(DEFAULT_CPU);
            c.requests.entry("memory".into()).or_insert(DEFAULT_MEMORY);
            c
        })
        .collect();
    let placed = pod.assignment.is_some();
    let mut total = aggregate(&with_defaults, |c| &c.requests);
    if placed {
        max(&mut total, &placed_containers(pod));
    }
    for (name, amount) in pod_level(pod, placed) {
        total.insert(name, amount);
    }
    add(&mut total, &pod.overhead);
    total.retain(|name, _| name == "cpu" || name == "memory");
    total
}

/// Steps 1 and 2 of the sum: app containers and sidecars together, against each init container beside
/// the sidecars that started before it.
fn aggregate<'a>(containers: &'a [Container], amounts: impl Fn(&'a Container) -> &'a ResourceList) -> ResourceList {
    let mut running = ResourceList::new();
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in containers {
        let own = amounts(container);
        match container.kind {
            ContainerKind::App => add(&mut running, own),
            ContainerKind::Sidecar => {
                add(&mut running, own);
                add(&mut sidecars, own);
                max(&mut peak, &sidecars);
            }
            ContainerKind::Init => {
                let mut step = sidecars.clone();
                add(&mut step, own);
                max(&mut peak, &step);
            }
        }
    }
    max(&mut running, &peak);
    running
}

/// The containers of a placed pod: largest of spec, actuated and allocated; without the spec where the
/// resize that it asks for is infeasible.
fn placed_containers(pod: &Pod) -> ResourceList {
    if let (Some(allocated), Some(actuated)) = (&pod.pod_level.allocated, &pod.pod_level.actuated) {
        let mut total = allocated.clone();
        max(&mut total, actuated);
        return total;
    }
    let empty = ResourceList::new();
    let fallback =
        |c: &'_ Container| -> ResourceList { if pod.resize_infeasible { empty.clone() } else { c.requests.clone() } };
    let by_status: Vec<(Container, Container)> = pod
        .containers
        .iter()
        .map(|c| {
            let allocated = c.allocated.clone().unwrap_or_else(|| fallback(c));
            let actuated = c.actuated.clone().unwrap_or_else(|| allocated.clone());
            let with = |requests| Container { requests, ..c.clone() };
            (with(allocated), with(actuated))
        })
        .collect();
    let (allocated, actuated): (Vec<_>, Vec<_>) = by_status.into_iter().unzip();
    let mut total = aggregate(&allocated, |c| &c.requests);
    max(&mut total, &aggregate(&actuated, |c| &c.requests));
    if !pod.resize_infeasible {
        max(&mut total, &aggregate(&pod.containers, |c| &c.requests));
    }
    total
}

/// Pod-level amounts, which replace the containers' sum for the resources that they name.
fn pod_level(pod: &Pod, placed: bool) -> ResourceList {
    let level = &pod.pod_level;
    let mut amounts = if placed && pod.resize_infeasible { ResourceList::new() } else { level.requests.clone() };
    if placed {
        for list in [&level.actuated, &level.allocated].into_iter().flatten() {
            max(&mut amounts, list);
        }
        // A status says amounts for what the spec names at pod level; the rest stays the containers' sum.
        amounts.retain(|name, _| level.requests.contains_key(name));
    }
    amounts.retain(|name, _| name == "cpu" || name == "memory" || name.starts_with("hugepages-"));
    amounts
}

fn add(total: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn max(total: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Assignment;
    use ContainerKind::{App, Init, Sidecar};

    fn list(cpu_milli: i64) -> ResourceList {
        [("cpu".to_owned(), Quantity::millis(cpu_milli))].into()
    }

    fn pod(containers: &[(ContainerKind, i64)]) -> Pod {
        let mut pod = Pod::new("u", "ns", "p");
        pod.containers = containers
            .iter()
            .enumerate()
            .map(|(i, (k, cpu))| Container::new(format!("c{i}"), *k, list(*cpu)))
            .collect();
        pod
    }

    fn cpu(pod: &Pod) -> i64 {
        effective_requests(pod).get("cpu").copied().unwrap_or_default().milli_value()
    }

    #[test]
    fn init_containers_and_sidecars() {
        for (containers, expected) in [
            (vec![(App, 100), (App, 200)], 300),
            (vec![(Init, 500), (App, 100)], 500),
            (vec![(Init, 500), (Init, 400), (App, 100)], 500),
            (vec![(Sidecar, 100), (App, 200)], 300),
            (vec![(Sidecar, 100), (Init, 400), (App, 200)], 500),
            (vec![(Init, 400), (Sidecar, 100), (App, 200)], 400),
            (vec![(Sidecar, 100), (Sidecar, 100), (Init, 50), (App, 0)], 250),
            (vec![], 0),
        ] {
            assert_eq!(cpu(&pod(&containers)), expected, "{containers:?}");
        }
    }

    #[test]
    fn sub_milli_requests_are_summed_before_they_round() {
        let mut pod = Pod::new("u", "ns", "p");
        let half: ResourceList = [("cpu".to_owned(), "500u".parse().expect("a quantity"))].into();
        pod.containers = vec![Container::new("a", App, half.clone()), Container::new("b", App, half)];
        assert_eq!(cpu(&pod), 1);
    }

    #[test]
    fn pod_level_replaces_the_sum_and_overhead_is_added() {
        let mut pod = pod(&[(App, 300), (Init, 900)]);
        pod.pod_level.requests = list(400);
        pod.overhead = list(50);
        assert_eq!(cpu(&pod), 450);
        pod.pod_level.requests = [("nvidia.com/gpu".to_owned(), Quantity::units(8))].into();
        assert_eq!(cpu(&pod), 950);
        assert!(!effective_requests(&pod).contains_key("nvidia.com/gpu"));
    }

    #[test]
    fn a_placed_pod_counts_by_its_status_too() {
        let mut pod = pod(&[(App, 100)]);
        pod.containers[0].allocated = Some(list(300));
        assert_eq!(cpu(&pod), 100, "not placed: by its spec alone");
        pod.assignment = Some(Assignment { node: "n".into(), allocation: None });
        assert_eq!(cpu(&pod), 300);
        pod.containers[0].actuated = Some(list(500));
        assert_eq!(cpu(&pod), 500);
        pod.containers[0].requests = list(900);
        assert_eq!(cpu(&pod), 900);
        pod.resize_infeasible = true;
        assert_eq!(cpu(&pod), 500, "an infeasible resize does not count");
    }

    #[test]
    fn scoring_defaults() {
        let mut pod = pod(&[(App, 300)]);
        pod.containers.push(Container::new("bare", App, ResourceList::new()));
        pod.containers.push(Container::new("zero", App, list(0)));
        let non_zero = non_zero_requests(&pod);
        assert_eq!(non_zero["cpu"].milli_value(), 400);
        assert_eq!(non_zero["memory"].value(), 3 * 200 * 1024 * 1024);
    }
}
