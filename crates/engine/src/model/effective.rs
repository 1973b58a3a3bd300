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
    let mut total =
        if placed { placed_containers(pod, ResourceList::clone) } else { aggregate(&pod.containers, |c| &c.requests) };
    for (name, amount) in pod_level(pod, placed) {
        total.insert(name, amount);
    }
    add(&mut total, &pod.overhead);
    total
}

/// As [`effective_requests`], with 100m CPU and 200 MiB for containers that state none: what a pod on a node counts as
/// in scores. An explicit 0 stays 0. Where the pod as a whole asks for something, only a resource that is asked for
/// nowhere gets the default.
pub fn non_zero_requests(pod: &Pod) -> ResourceList {
    let placed = pod.assignment.is_some();
    let level = pod_level(pod, placed);
    let stated = if level.is_empty() { ResourceList::new() } else { effective_requests(pod) };
    let missing = |name: &str| !stated.contains_key(name);
    let mut total = if placed {
        placed_containers(pod, |requests| filled(requests, missing))
    } else {
        aggregate(&with_defaults(pod, missing), |c| &c.requests)
    };
    for (name, amount) in level {
        total.insert(name, amount);
    }
    scored(total, pod)
}

/// What a pod that is to be placed counts as in kube-scheduler's score of free resources: as [`non_zero_requests`], but
/// by its containers alone. What the pod as a whole asks for is left out there, though it must fit and counts once the
/// pod is on its node.
pub fn incoming_requests(pod: &Pod) -> ResourceList {
    scored(aggregate(&with_defaults(pod, |_| true), |c| &c.requests), pod)
}

/// The containers, with the default where they state nothing and `missing` says that it counts.
fn with_defaults(pod: &Pod, missing: impl Fn(&str) -> bool) -> Vec<Container> {
    pod.containers.iter().map(|c| Container { requests: filled(&c.requests, &missing), ..c.clone() }).collect()
}

/// Requests with the default where they state nothing and `missing` says that it counts.
fn filled(requests: &ResourceList, missing: impl Fn(&str) -> bool) -> ResourceList {
    let mut requests = requests.clone();
    for (name, amount) in [("cpu", DEFAULT_CPU), ("memory", DEFAULT_MEMORY)] {
        if missing(name) {
            requests.entry(name.to_owned()).or_insert(amount);
        }
    }
    requests
}

/// With overhead, and nothing but what scores look at.
fn scored(mut total: ResourceList, pod: &Pod) -> ResourceList {
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

/// The containers of a placed pod: largest of spec, actuated and allocated; without the spec where the resize that it asks
/// for is infeasible. `fill` completes what a container asks for. Where kubelet says both for the pod as a whole, that
/// stands for its containers.
fn placed_containers(pod: &Pod, fill: impl Fn(&ResourceList) -> ResourceList) -> ResourceList {
    let sum = |amounts: &dyn Fn(&Container) -> ResourceList| {
        let with = |c: &Container| Container { requests: fill(&amounts(c)), ..c.clone() };
        let containers: Vec<Container> = pod.containers.iter().map(with).collect();
        aggregate(&containers, |c| &c.requests)
    };
    let spec = |c: &Container| if pod.resize_infeasible { ResourceList::new() } else { c.requests.clone() };
    let allocated = |c: &Container| c.allocated.clone().unwrap_or_else(|| spec(c));
    let actuated = |c: &Container| c.actuated.clone().unwrap_or_else(|| allocated(c));
    let mut total = match (&pod.pod_level.allocated, &pod.pod_level.actuated) {
        (Some(allocated), Some(actuated)) => {
            let mut total = allocated.clone();
            max(&mut total, actuated);
            total
        }
        _ => {
            let mut total = sum(&allocated);
            max(&mut total, &sum(&actuated));
            total
        }
    };
    if !pod.resize_infeasible {
        max(&mut total, &sum(&|c| c.requests.clone()));
    }
    total
}

/// Pod-level amounts, which replace the containers' sum for the resources that they name.
fn pod_level(pod: &Pod, placed: bool) -> ResourceList {
    let level = &pod.pod_level;
    let mut amounts = level.requests.clone();
    // Only with a status of the pod as a whole is there anything to hold the spec against.
    if placed && level.actuated.is_some() {
        if pod.resize_infeasible {
            amounts.clear();
        }
        for list in [&level.actuated, &level.allocated].into_iter().flatten() {
            max(&mut amounts, list);
        }
    }
    amounts.retain(|name, _| is_pod_level(name));
    if level.requests.keys().any(|name| is_pod_level(name)) { amounts } else { ResourceList::new() }
}

/// Whether a resource can be asked for by the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
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
        // What kubelet says of the pod as a whole stands for its containers, beside the spec.
        pod.pod_level.allocated = Some(list(200));
        pod.pod_level.actuated = Some(list(250));
        assert_eq!(cpu(&pod), 250);
        pod.resize_infeasible = false;
        assert_eq!(cpu(&pod), 900);
        // A pod-level request is replaced by the largest of the three only where there is such a status.
        pod.pod_level.requests = list(100);
        assert_eq!(cpu(&pod), 250);
        (pod.pod_level.allocated, pod.pod_level.actuated) = (None, None);
        pod.resize_infeasible = true;
        assert_eq!(cpu(&pod), 100);
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

    #[test]
    fn a_request_of_the_whole_pod_in_scores() {
        const MIB: i64 = 1024 * 1024;
        let amounts = |cpu: Option<i64>, memory: Option<i64>| -> ResourceList {
            let cpu = cpu.map(|cpu| ("cpu".to_owned(), Quantity::millis(cpu)));
            cpu.into_iter().chain(memory.map(|mib| ("memory".to_owned(), Quantity::units(mib * MIB)))).collect()
        };
        let of = |list: ResourceList| (list["cpu"].milli_value(), list["memory"].value() / MIB);
        for (containers, whole, incoming, on_node) in [
            // Before it is placed, only its containers count, each with the defaults.
            ([amounts(Some(50), Some(16)), amounts(None, None)], amounts(Some(900), None), (150, 216), (900, 16)),
            ([amounts(Some(50), None), amounts(None, None)], amounts(Some(900), Some(64)), (150, 400), (900, 64)),
            // On its node a resource that nobody asks for still gets them.
            ([amounts(None, None), amounts(None, None)], amounts(Some(900), None), (200, 400), (900, 400)),
            ([amounts(None, None), amounts(None, Some(0))], amounts(None, None), (200, 200), (200, 200)),
        ] {
            let mut pod = pod(&[(App, 0), (App, 0)]);
            for (container, requests) in pod.containers.iter_mut().zip(containers) {
                container.requests = requests;
            }
            pod.pod_level.requests = whole;
            assert_eq!((of(incoming_requests(&pod)), of(non_zero_requests(&pod))), (incoming, on_node), "{pod:?}");
        }
    }
}
