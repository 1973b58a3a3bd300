//! What the engine's tests share: short ways to say a node, a card, a pod, and an engine with a clock.
#![allow(dead_code, reason = "every test file takes what it needs of this")]

pub mod check;
pub mod kubelet;
pub mod op;
pub mod relations;
pub mod storage;
pub mod world;

use gpu_scheduler_engine::framework::Profile;
use gpu_scheduler_engine::model::{
    Allocation, Assignment, CardSpec, Container, ContainerAllocation, ContainerKind, Demand, DeviceGrant, DeviceReport,
    DeviceStatus, GrantKind, Mib, MilliGpu, Node, Percent, Pod, PodGroup, PodGroupName, PodUid, Quantity, ShareMemory,
    Taint, Ticket, Timestamp,
};
use gpu_scheduler_engine::{
    Action, Config, Engine, Event, Explanation, NodeVerdict, Outcome, PodPhase, Policy, ProfileConfig, Step,
};

/// Memory of the usual test card: round numbers keep the arithmetic in the tests readable.
pub const CARD: u64 = 10_000;
/// The usual model.
pub const MODEL: &str = "NVIDIA-A100-SXM4-80GB";
/// The scheduler name that test pods ask for.
pub const OURS: &str = "gpu-scheduler";

/// A node with 64 CPUs and 256 GiB and no GPU.
pub fn node(name: &str) -> Node {
    let mut node = Node { name: name.into(), ..Node::default() };
    for (resource, amount) in [("cpu", 64), ("memory", 256 << 30), ("pods", 110)] {
        node.allocatable.insert(resource.into(), Quantity::units(amount));
    }
    node
}

/// A node with this much CPU (milli-cores) and memory (MiB).
pub fn sized(name: &str, cpu: i64, mib: i64) -> Node {
    let mut node = node(name);
    node.allocatable.insert("cpu".into(), Quantity::millis(cpu));
    node.allocatable.insert("memory".into(), Quantity::units(mib << 20));
    node
}

/// A card of the usual model.
pub fn card(node: &str, index: u32, mib: u64) -> CardSpec {
    CardSpec::new(format!("GPU-{node}-{index}"), index, MODEL, Some(Mib(mib)))
}

/// A node with `cards` cards of [`CARD`] MiB.
pub fn gpu_node(name: &str, cards: u32) -> Node {
    with_cards(node(name), (0..cards).map(|i| card(name, i, CARD)).collect())
}

/// The node with these cards, handed out by a device plugin.
pub fn with_cards(mut node: Node, cards: Vec<CardSpec>) -> Node {
    let count = i64::try_from(cards.len()).expect("a few cards");
    node.allocatable.insert("nvidia.com/gpu".into(), Quantity::units(count));
    node.cards = cards;
    node
}

/// The node with a label.
pub fn labelled(mut node: Node, key: &str, value: &str) -> Node {
    node.labels.insert(key.into(), value.into());
    node
}

/// The node with a taint.
pub fn tainted(mut node: Node, key: &str, value: &str, effect: gpu_scheduler_engine::model::Effect) -> Node {
    node.taints.push(Taint { key: key.into(), value: value.into(), effect });
    node
}

/// A pod of ours with one container that asks for nothing; its name is its UID.
pub fn pod(name: &str) -> Pod {
    let mut pod = Pod::new(name, "default", name);
    pod.scheduler = OURS.into();
    pod.containers = vec![Container::new("main", ContainerKind::App, [].into())];
    pod
}

/// The pod with one more request of its first container.
pub fn asking(mut pod: Pod, resource: &str, amount: Quantity) -> Pod {
    pod.containers[0].requests.insert(resource.into(), amount);
    pod
}

/// A pod that asks for CPU (milli-cores).
pub fn cpu_pod(name: &str, cpu: i64) -> Pod {
    asking(pod(name), "cpu", Quantity::millis(cpu))
}

/// A pod with this GPU demand.
pub fn gpu_pod(name: &str, demand: Demand) -> Pod {
    let mut pod = pod(name);
    pod.containers[0].gpu = vec![demand];
    pod
}

/// Whole cards.
pub fn whole(count: u32) -> Demand {
    Demand::Cards { count }
}

/// A share by memory.
pub fn share(mib: u64) -> Demand {
    Demand::Share { memory: ShareMemory::Mib(Mib(mib)), compute: Percent(0), count: 1 }
}

/// A share by a part of the card.
pub fn fraction(milli: u32) -> Demand {
    Demand::Share { memory: ShareMemory::Fraction(MilliGpu(milli)), compute: Percent(0), count: 1 }
}

/// A share with compute.
pub fn with_compute(mib: u64, compute: u32) -> Demand {
    Demand::Share { memory: ShareMemory::Mib(Mib(mib)), compute: Percent(compute), count: 1 }
}

/// A record of one container that holds cards of a node in this way.
pub fn record(kind: GrantKind, devices: &[(&str, u32, u64)]) -> Allocation {
    let device = |(uuid, index, mib): &(&str, u32, u64)| DeviceGrant {
        uuid: (*uuid).to_owned(),
        index: *index,
        memory: Mib(*mib),
        compute: Percent(if kind == GrantKind::Whole { 100 } else { 0 }),
        mig: None,
    };
    let devices = devices.iter().map(device).collect();
    Allocation { containers: vec![ContainerAllocation { name: "main".into(), kind: Some(kind), devices }] }
}

/// The pod, bound to a node.
pub fn bound(mut pod: Pod, node: &str, allocation: Option<Allocation>) -> Pod {
    pod.assignment = Some(Assignment { node: node.into(), allocation });
    pod
}

/// A pod group's name.
pub fn group_name(name: &str) -> PodGroupName {
    PodGroupName { namespace: "default".into(), name: name.into() }
}

/// A report of a node's own cards with this foreign memory on each.
pub fn report(node: &Node, at: u64, foreign: u64) -> DeviceReport {
    let device = |card: &CardSpec| DeviceStatus {
        card: card.clone(),
        used: Mib(foreign),
        foreign: Mib(foreign),
        holders: Vec::new(),
    };
    DeviceReport {
        node: node.name.clone(),
        updated_at: Timestamp(at),
        steered: false,
        topology_manager: None,
        devices: node.cards.iter().map(device).collect(),
    }
}

/// An engine with a clock.
#[derive(Debug)]
pub struct Run {
    pub engine: Engine,
    pub now: Timestamp,
}

impl Run {
    pub fn new(config: Config) -> Self {
        Self { engine: Engine::new(config), now: Timestamp(1_000_000) }
    }
    pub fn policy(policy: Policy) -> Self {
        Self::new(Config::with_policy(policy))
    }
    pub fn profile(profile: Profile) -> Self {
        Self::new(Config::with_profile(profile))
    }
    /// Two profiles, `gpu-scheduler` and `other`.
    pub fn two_profiles(ours: Profile, other: Profile) -> Self {
        let mut config = Config::with_profile(ours);
        config.profiles.push(ProfileConfig { scheduler: "other".into(), profile: other });
        Self::new(config)
    }

    pub fn nodes(&mut self, nodes: impl IntoIterator<Item = Node>) -> &mut Self {
        for node in nodes {
            self.engine.handle(self.now, Event::NodeApplied(Box::new(node)));
        }
        self
    }
    pub fn pods(&mut self, pods: impl IntoIterator<Item = Pod>) -> &mut Self {
        for pod in pods {
            self.engine.handle(self.now, Event::PodApplied(Box::new(pod)));
        }
        self
    }
    /// A pod group, whose pods go one by one.
    pub fn group(&mut self, name: &PodGroupName, min_count: Option<u32>) -> &mut Self {
        let facts = PodGroup { name: name.clone(), min_count, disrupted_as_one: false, priority: 0 };
        self.engine.handle(self.now, Event::PodGroupApplied(Box::new(facts)));
        self
    }
    pub fn report(&mut self, report: DeviceReport) -> &mut Self {
        self.engine.handle(self.now, Event::DevicesReported(Box::new(report)));
        self
    }
    pub fn delete(&mut self, uid: &str) -> &mut Self {
        self.engine.handle(self.now, Event::PodDeleted { uid: uid.into() });
        self
    }
    pub fn answer(&mut self, ticket: Ticket, outcome: Outcome) -> &mut Self {
        self.engine.handle(self.now, Event::ActionFinished { ticket, outcome });
        self
    }
    /// Time passes.
    pub fn wait(&mut self, millis: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 + millis);
        self
    }

    /// Polls until the engine rests, and returns what it wants done.
    pub fn rest(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..100_000 {
            match self.engine.poll(self.now) {
                Step::Act(action) => actions.push(action),
                Step::Busy => {}
                Step::Rest => return actions,
            }
        }
        panic!("the engine does not come to rest; first actions: {:?}", actions.iter().take(5).collect::<Vec<_>>());
    }

    /// As [`Run::rest`], carrying out every bind and preparation at once; returns pods and nodes bound, in order.
    pub fn settle(&mut self) -> Vec<(String, String)> {
        let mut binds = Vec::new();
        loop {
            let mut answered = false;
            for action in self.rest() {
                let ticket = match action {
                    Action::Bind { ticket, uid, node, .. } => {
                        binds.push((uid.to_string(), node.to_string()));
                        ticket
                    }
                    Action::PreBind { ticket, .. } => ticket,
                    _ => continue,
                };
                self.answer(ticket, Outcome::Done);
                answered = true;
            }
            if !answered {
                return binds;
            }
        }
    }

    /// Adds one pod, settles, and says where it went.
    pub fn place(&mut self, pod: Pod) -> Option<String> {
        let uid = pod.uid.to_string();
        self.pods([pod]);
        self.settle();
        self.node_of(&uid)
    }

    pub fn explain(&self, uid: &str) -> Explanation {
        self.engine.explain(&PodUid::from(uid)).unwrap_or_else(|| panic!("pod {uid} is not known"))
    }
    /// Where a pod is.
    pub fn node_of(&self, uid: &str) -> Option<String> {
        match self.explain(uid).phase {
            PodPhase::Placed { node, .. } => Some(node.to_string()),
            _ => None,
        }
    }
    /// The devices of a pod: UUIDs in the order of its record.
    pub fn devices_of(&self, uid: &str) -> Vec<String> {
        match self.explain(uid).phase {
            PodPhase::Placed { allocation, .. } => {
                allocation.containers.iter().flat_map(|c| &c.devices).map(|d| d.uuid.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
    /// The text that was written onto a pod.
    pub fn message(&self, uid: &str) -> String {
        let message = self.explain(uid).message.map(|m| m.to_string()).unwrap_or_default();
        // What preemption says stands behind it, and has tests of its own.
        message.split(" preemption: ").next().unwrap_or_default().to_owned()
    }
    /// What one plugin scores for a pod that waits, on one node.
    pub fn score(&self, uid: &str, node: &str, plugin: &str) -> Option<i64> {
        self.explain(uid).nodes.into_iter().find(|n| &*n.node == node).and_then(|n| match n.verdict {
            NodeVerdict::Candidate { terms, .. } => terms.into_iter().find(|t| t.plugin == plugin).map(|t| t.score),
            NodeVerdict::Rejected(_) => None,
        })
    }
    /// Whether a node's rejection of a waiting pod is permanent; `None` if it is a candidate.
    pub fn permanent(&self, uid: &str, node: &str) -> Option<bool> {
        self.explain(uid).nodes.into_iter().find(|n| &*n.node == node).and_then(|n| match n.verdict {
            NodeVerdict::Candidate { .. } => None,
            NodeVerdict::Rejected(rejection) => Some(rejection.permanent),
        })
    }
    /// The first card of a node.
    pub fn card(&self, node: &str, at: usize) -> &gpu_scheduler_engine::ledger::Card {
        &self.engine.state().node_named(node).expect("the test made this node").ledger().cards()[at]
    }
}
