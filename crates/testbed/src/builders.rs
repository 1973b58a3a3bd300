//! Nodes, pods and reports in a few words, for tests of any crate.
//!
//! ```
//! use gpu_scheduler_testbed::builders::{NodeBuilder, PodBuilder};
//!
//! let node = NodeBuilder::new("n1").gpus(8, "NVIDIA-A100-SXM4-80GB", Some(81920)).build();
//! let pod = PodBuilder::new("a").share(8192, 30, 1).build();
//! assert_eq!((node.cards.len(), pod.containers.len()), (8, 1));
//! ```

use gpu_scheduler_engine::model::{
    CardSpec, Container, ContainerKind, Demand, DeviceReport, DeviceStatus, HostPort, Mib, Node, Partitioning, Percent,
    Pod, Quantity, ShareMemory, Taint, Timestamp,
};

/// The scheduler name that the engine answers to by default.
pub const SCHEDULER: &str = "gpu-scheduler";

/// Resource of whole cards.
pub const GPU: &str = "nvidia.com/gpu";
/// Resource of seats.
pub const SEAT: &str = "nvidia.com/gpu.shared";

/// Makes a [`Node`]: 64 cores, 256 GiB and 110 pods unless told otherwise.
#[derive(Debug, Clone)]
pub struct NodeBuilder(Node);

impl NodeBuilder {
    /// A node without GPUs.
    pub fn new(name: &str) -> Self {
        let node = Node { name: name.to_owned(), ..Node::default() };
        Self(node)
            .allocatable("cpu", Quantity::units(64))
            .allocatable("memory", Quantity::units(256 << 30))
            .allocatable("pods", Quantity::units(110))
    }

    /// Adds `count` cards, their UUIDs made up as for a node that no agent reports.
    #[must_use]
    pub fn gpus(mut self, count: u32, model: &str, memory_mib: Option<u64>) -> Self {
        let first = self.0.cards.len();
        for index in (first..).take(count as usize) {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let uuid = CardSpec::made_up_uuid(&self.0.name, index);
            self.0.cards.push(CardSpec::new(uuid, index, model, memory_mib.map(Mib)));
        }
        self
    }

    /// Changes the card at `index`, if it is there.
    #[must_use]
    pub fn card(mut self, index: u32, change: impl FnOnce(&mut CardSpec)) -> Self {
        if let Some(card) = self.0.cards.iter_mut().find(|c| c.index == index) {
            change(card);
        }
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, taint: Taint) -> Self {
        self.0.taints.push(taint);
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn cordoned(mut self) -> Self {
        self.0.unschedulable = true;
        self
    }

    /// States an allocatable amount.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, amount: Quantity) -> Self {
        self.0.allocatable.insert(resource.to_owned(), amount);
        self
    }

    /// The node; what kubelet would offer for its cards is added where it was not stated.
    pub fn build(mut self) -> Node {
        let mut offers = std::collections::BTreeMap::<String, i64>::new();
        for card in &self.0.cards {
            match &card.partitioning {
                Partitioning::OnDemand => *offers.entry(GPU.into()).or_default() += 1,
                Partitioning::TimeSliced { seats } => *offers.entry(GPU.into()).or_default() += i64::from(*seats),
                Partitioning::Mig(slices) => {
                    for slice in slices {
                        *offers.entry(mig_resource(&slice.profile)).or_default() += 1;
                    }
                }
            }
        }
        for (resource, amount) in offers {
            self.0.allocatable.entry(resource).or_insert(Quantity::units(amount));
        }
        self.0
    }
}

/// Makes a [`Pod`] with one container `main`, addressed to [`SCHEDULER`].
#[derive(Debug, Clone)]
pub struct PodBuilder {
    pod: Pod,
    main: Container,
}

impl PodBuilder {
    /// A pod in namespace `default` that asks for nothing; its UID is its name.
    pub fn new(name: &str) -> Self {
        let mut pod = Pod::new(name, "default", name);
        pod.scheduler = SCHEDULER.to_owned();
        Self { pod, main: Container::new("main", ContainerKind::App, Default::default()) }
    }

    /// Asks for whole cards.
    #[must_use]
    pub fn gpus(mut self, count: u32) -> Self {
        ask(&mut self.main, Demand::Cards { count });
        self
    }

    /// Asks for a share of each of `cards` distinct cards.
    #[must_use]
    pub fn share(mut self, memory_mib: u64, compute: u32, cards: u32) -> Self {
        let memory = ShareMemory::Mib(Mib(memory_mib));
        ask(&mut self.main, Demand::Share { memory, compute: Percent(compute), count: cards });
        self
    }

    /// Asks for anything of GPUs.
    #[must_use]
    pub fn demand(mut self, demand: Demand) -> Self {
        ask(&mut self.main, demand);
        self
    }

    /// Asks for another resource.
    #[must_use]
    pub fn request(mut self, resource: &str, amount: Quantity) -> Self {
        self.main.requests.insert(resource.to_owned(), amount);
        self
    }

    /// Binds a TCP host port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.main.ports.push(HostPort { ip: String::new(), protocol: String::new(), port });
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.pod.priority = priority;
        self
    }

    /// Sets when the pod was created.
    #[must_use]
    pub fn created_at(mut self, at: Timestamp) -> Self {
        self.pod.created_at = at;
        self
    }

    /// Changes anything else.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.pod);
        self
    }

    /// The pod: containers that were added by [`PodBuilder::with`], then `main`.
    pub fn build(mut self) -> Pod {
        self.pod.containers.push(self.main);
        self.pod
    }
}

/// Adds a demand to a container, with the resource that Kubernetes counts for it.
pub fn ask(container: &mut Container, demand: Demand) {
    let (resource, count) = match &demand {
        Demand::Cards { count } => (Some(GPU.to_owned()), *count),
        Demand::Seats { count } => (Some(SEAT.to_owned()), *count),
        Demand::Slices { profile, count } => (Some(mig_resource(profile)), *count),
        // The scheduler alone knows of a share: no node offers it as a resource.
        Demand::Share { count, .. } => (None, *count),
    };
    if let Some(resource) = resource {
        *container.requests.entry(resource).or_default() += Quantity::units(i64::from(count));
    }
    container.gpu.push(demand);
    container.gpu.sort();
}

/// Resource of slices of a MIG profile.
pub fn mig_resource(profile: &str) -> String {
    format!("nvidia.com/mig-{profile}")
}

/// A report that finds `cards` idle.
pub fn idle_report(node: &str, cards: &[CardSpec], updated_at: Timestamp) -> DeviceReport {
    let idle =
        |card: &CardSpec| DeviceStatus { card: card.clone(), used: Mib(0), foreign: Mib(0), holders: Vec::new() };
    let devices = cards.iter().map(idle).collect();
    DeviceReport { node: node.to_owned(), updated_at, steered: false, topology_manager: None, devices }
}
