//! A cluster beside the engine: it plays API server, kubelet, agents, users and other schedulers. What it
//! keeps is the truth that the engine is judged by.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{
    Allocation, Assignment, CardSpec, Container, ContainerKind, Demand, DeviceReport, DeviceStatus, Effect, GrantKind,
    Health, Holder, HostPort, Mib, ModelPattern, Node, Partition, Partitioning, Pod, PodUid, PodVolume, Quantity,
    StorageObject, Ticket, Timestamp, Toleration, TopologyManager, TopologyManagerPolicy, TopologyManagerScope,
    VolumePlan,
};
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome, PreBindStep, Step};

use super::op::{NodeChange, Op, RecordKind, ReportOp, StorageOp};
use super::storage::{self, Storage};
use super::{CARD, card, fraction, gpu_pod, record, share, tainted, whole, with_cards, with_compute};

/// An action whose outcome is still open.
#[derive(Debug, Clone)]
pub struct Open {
    pub ticket: Ticket,
    pub uid: PodUid,
    /// Node and record, for a bind.
    pub bind: Option<(String, Allocation)>,
    /// Node and plan, for volumes to be bound.
    pub volumes: Option<(String, VolumePlan)>,
}

/// The world.
#[derive(Debug)]
pub struct World {
    pub engine: Engine,
    pub now: Timestamp,
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, Pod>,
    /// The last report of each node.
    pub reports: BTreeMap<String, DeviceReport>,
    pub open: Vec<Open>,
    pub storage: Storage,
    /// Pods that are to be deleted, and are still there.
    pub evicted: Vec<String>,
    /// What the engine wanted done, as text.
    pub log: Vec<String>,
    /// All that was asked of the engine, in order: an event, or nothing for a poll.
    pub tape: Vec<(Timestamp, Option<Event>)>,
    /// `Busy` answers so far.
    pub busy: u32,
    /// Whether the profile holds pods back (Permit): then a pod may be in flight with nothing open for it.
    pub holds: bool,
    born: u32,
}

impl World {
    pub fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config),
            now: Timestamp(1_000_000),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            reports: BTreeMap::new(),
            open: Vec::new(),
            storage: Storage::default(),
            evicted: Vec::new(),
            log: Vec::new(),
            tape: Vec::new(),
            busy: 0,
            holds: false,
            born: 0,
        }
    }

    /// Lets the engine know.
    pub fn send(&mut self, event: Event) {
        self.tape.push((self.now, Some(event.clone())));
        self.engine.handle(self.now, event);
    }
    fn show(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get(uid).cloned() {
            self.send(Event::PodApplied(Box::new(pod)));
        }
    }
    fn nth(&self, n: u8) -> Option<String> {
        let len = self.pods.len();
        (len > 0).then(|| self.pods.keys().nth(usize::from(n) % len).cloned()).flatten()
    }

    /// Lets one thing happen.
    pub fn step(&mut self, op: &Op) {
        match *op {
            Op::Node(n, change) => self.change_node(n, change),
            Op::NodeDelete(n) => {
                let name = node_name(n);
                // Its report is an object of its own, and stays.
                self.nodes.remove(&name);
                self.send(Event::NodeDeleted { name });
            }
            Op::Report(n, report) => self.report(n, report),
            Op::ReportDelete(n) => {
                self.reports.remove(&node_name(n));
                self.send(Event::DeviceReportDeleted { node: node_name(n) });
            }
            Op::Submit { kind, size, priority } => {
                let pod = self.birth(kind, size, priority);
                self.admit(pod);
            }
            Op::Foreign { kind, size, node, record } => {
                let mut pod = self.birth(kind, size, 0);
                pod.scheduler = if size.is_multiple_of(2) { "other".into() } else { pod.scheduler };
                pod.gates.clear();
                pod.assignment = Some(self.assignment(&pod, node, record));
                pod.started_at = Some(self.now);
                self.admit(pod);
            }
            Op::Update(n, how) => self.update(n, how),
            Op::Terminate(n) => {
                if let Some(uid) = self.nth(n) {
                    self.pods.entry(uid.clone()).and_modify(|p| p.terminating = true);
                    self.show(&uid);
                }
            }
            Op::Delete(n) => self.delete(n, 1),
            Op::DeleteTwice(n) => self.delete(n, 2),
            Op::Steal { pod, node, record } => self.steal(pod, node, record),
            Op::Answer { which, done, watch_first } => self.answer(which, done, watch_first),
            Op::AnswerUnknown(ticket) => {
                self.send(Event::ActionFinished { ticket: Ticket(ticket), outcome: Outcome::Done });
            }
            Op::Storage(op) => self.change_storage(op),
            Op::Around(which) => {
                for event in super::relations::around(which) {
                    self.send(event);
                }
            }
            Op::Advance(seconds) => self.now = Timestamp(self.now.0 + u64::from(seconds) * 1000),
            Op::Poll(times) => {
                for _ in 0..times {
                    self.poll();
                }
            }
            Op::Rest => self.rest(),
        }
    }

    /// One poll; false at rest.
    pub fn poll(&mut self) -> bool {
        self.tape.push((self.now, None));
        match self.engine.poll(self.now) {
            Step::Rest => return false,
            Step::Busy => self.busy += 1,
            Step::Act(action) => {
                self.log.push(format!("{} {action:?}", self.now));
                match action {
                    Action::Bind { ticket, uid, node, allocation, .. } => {
                        let bind = Some((node.to_string(), allocation));
                        self.open.push(Open { ticket, uid, bind, volumes: None });
                    }
                    Action::PreBind { ticket, uid, node, step, .. } => {
                        let volumes = match step {
                            PreBindStep::BindVolumes(plan) => Some((node.to_string(), plan)),
                            PreBindStep::Other { .. } => None,
                        };
                        self.open.push(Open { ticket, uid, bind: None, volumes });
                    }
                    Action::Evict { uid, .. } => self.evicted.push(uid.to_string()),
                    Action::SetCondition { .. } | Action::Nominate { .. } | Action::Report(_) => {}
                }
            }
        }
        true
    }

    /// Polls to rest. A bound on the number of polls stands for "finite".
    pub fn rest(&mut self) {
        for _ in 0..50_000 {
            if !self.poll() {
                return;
            }
        }
        panic!("the engine does not come to rest; last actions: {:#?}", self.log.iter().rev().take(5));
    }

    /// Answers all that is open, and waits for all that waits, until nothing moves any more.
    pub fn quiesce(&mut self) {
        for _ in 0..200 {
            self.rest();
            if let Some(uid) = self.evicted.pop() {
                self.pods.remove(&uid);
                self.send(Event::PodDeleted { uid: uid.as_str().into() });
            } else if !self.open.is_empty() {
                self.answer(0, true, false);
            } else if let Some(next) = self.engine.next_wakeup() {
                self.now = self.now.max(next);
            } else {
                return;
            }
        }
        panic!("the world does not quiesce; last actions: {:#?}", self.log.iter().rev().take(5));
    }

    fn change_storage(&mut self, op: StorageOp) {
        for change in self.storage.change(op) {
            match change {
                Ok(object) => self.apply_storage(object),
                Err(key) => {
                    self.storage.objects.remove(&key);
                    self.send(Event::StorageDeleted(key));
                }
            }
        }
    }

    pub fn apply_storage(&mut self, object: StorageObject) {
        self.storage.objects.insert(object.key(), object.clone());
        self.send(Event::StorageApplied(Box::new(object)));
    }

    fn admit(&mut self, pod: Pod) {
        let uid = pod.uid.to_string();
        self.pods.insert(uid.clone(), pod);
        self.show(&uid);
    }

    fn delete(&mut self, n: u8, times: u32) {
        let Some(uid) = self.nth(n) else { return };
        self.pods.remove(&uid);
        for _ in 0..times {
            self.send(Event::PodDeleted { uid: uid.as_str().into() });
        }
    }

    fn change_node(&mut self, n: u8, change: NodeChange) {
        let name = node_name(n);
        let mut node = self.nodes.remove(&name).unwrap_or_else(|| self::node(&name));
        let set = |node: Node, cards: u8, how: &dyn Fn(&mut CardSpec)| {
            let mut cards: Vec<CardSpec> = (0..u32::from(cards)).map(|i| card(&node.name, i, CARD)).collect();
            cards.iter_mut().for_each(how);
            with_cards(node, cards)
        };
        let made_up = |c: &mut CardSpec| c.uuid = CardSpec::made_up_uuid(&name, c.index);
        node = match change {
            NodeChange::Cards(count) => set(node, count, &|c| {
                if count.is_multiple_of(2) {
                    made_up(c)
                }
            }),
            NodeChange::Seats(seats) => {
                set(node, 2, &|c| c.partitioning = Partitioning::TimeSliced { seats: u32::from(seats) })
            }
            NodeChange::Mig(slices) => set(node, 2, &|c| {
                let slice =
                    |i| Partition { profile: "1g.5gb".into(), uuid: format!("MIG-{}-{i}", c.uuid), start: None };
                c.partitioning = Partitioning::Mig((0..slices).map(slice).collect());
            }),
            NodeChange::NoMemoryLabel => set(node, 2, &|c| c.memory = None),
            NodeChange::OtherModel => set(node, 2, &|c| c.model = "Tesla-T4".into()),
            NodeChange::Cordon => Node { unschedulable: !node.unschedulable, ..node },
            NodeChange::Taint if node.taints.is_empty() => tainted(node, "gpu", "yes", Effect::NoSchedule),
            NodeChange::Taint => Node { taints: Vec::new(), ..node },
            NodeChange::SmallCpu => {
                node.allocatable.insert("cpu".into(), Quantity::units(2));
                node
            }
        };
        super::relations::label(&mut node, n, change);
        self.nodes.insert(name, node.clone());
        self.send(Event::NodeApplied(Box::new(node)));
    }

    fn report(&mut self, n: u8, op: ReportOp) {
        let name = node_name(n);
        let cards = self.nodes.get(&name).map_or_else(|| super::gpu_node(&name, 2).cards, |node| node.cards.clone());
        let on_node: Vec<PodUid> = self
            .pods
            .values()
            .filter(|p| p.assignment.as_ref().is_some_and(|a| a.node == name))
            .map(|p| p.uid.clone())
            .collect();
        let mut devices: Vec<DeviceStatus> = cards
            .into_iter()
            .map(|mut card| {
                if op.real {
                    card.uuid = format!("GPU-{name}-{}", card.index);
                }
                let holders = if card.index == 0 { on_node.iter().take(2) } else { [].iter().take(0) };
                let holder = |pod: &PodUid| Holder { pod: pod.clone(), used: Mib(u64::from(op.used)) };
                let foreign = if card.index == 0 { u64::from(op.foreign) * CARD / 1000 } else { 0 };
                DeviceStatus { card, used: Mib(foreign), foreign: Mib(foreign), holders: holders.map(holder).collect() }
            })
            .collect();
        if op.unhealthy
            && let Some(device) = devices.last_mut()
        {
            device.card.health = Health::Unhealthy("XID 79".into());
        }
        if op.lost {
            devices.pop();
        }
        let updated_at = Timestamp(self.now.0.saturating_sub(u64::from(op.age) * 1000));
        for device in &mut devices {
            device.card.numa = Some(device.card.index / 2);
        }
        let steered = updated_at.0.is_multiple_of(3);
        let topology_manager = topology_manager(updated_at.0 / 1000);
        let report = DeviceReport { node: name.clone(), updated_at, steered, topology_manager, devices };
        self.reports.insert(name, report.clone());
        self.send(Event::DevicesReported(Box::new(report)));
    }

    fn birth(&mut self, kind: u8, size: u8, priority: u8) -> Pod {
        self.born += 1;
        let name = format!("p{:04}", self.born);
        let mut pod = shape(&name, kind, u64::from(size));
        pod.created_at = self.now;
        pod.priority = i32::from(priority) * 10;
        super::relations::relate(&mut pod, size);
        pod
    }

    /// What somebody else's bind says.
    fn assignment(&self, pod: &Pod, n: u8, kind: RecordKind) -> Assignment {
        let node = node_name(n);
        let asks = pod.containers.iter().any(|c| !c.gpu.is_empty());
        let real = format!("GPU-{node}-0");
        let uuid = self.nodes.get(&node).and_then(|n| n.cards.first()).map_or(real, |c| c.uuid.clone());
        let allocation = match kind {
            RecordKind::None => None,
            _ if !asks => Some(Allocation::default()),
            RecordKind::Right => Some(record(GrantKind::Share, &[(&uuid, 0, CARD / 4)])),
            RecordKind::Wrong => Some(record(GrantKind::Whole, &[(&uuid, 0, CARD), (&uuid, 0, CARD)])),
            RecordKind::UnknownCard => Some(record(GrantKind::Whole, &[("GPU-nowhere", 9, CARD)])),
        };
        Assignment { node, allocation }
    }

    fn update(&mut self, n: u8, how: u8) {
        let Some(uid) = self.nth(n) else { return };
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        match how % 5 {
            0 => drop(pod.labels.insert(if how < 128 { "touched" } else { "app" }.into(), (how % 4).to_string())),
            1 if pod.assignment.is_none() => pod.gates.clear(),
            1 | 2 => pod.priority = i32::from(how),
            3 => pod.tolerations.push(Toleration { key: "gpu".into(), value: "yes".into(), ..Toleration::default() }),
            _ => {
                // An in-place resize, seen in the status of a placed pod.
                let cpu = Quantity::millis(i64::from(how) * 10);
                pod.containers[0].allocated = pod.assignment.is_some().then(|| [("cpu".to_owned(), cpu)].into());
            }
        }
        self.show(&uid);
    }

    fn steal(&mut self, pod: u8, node: u8, record: RecordKind) {
        let free: Vec<String> = self
            .pods
            .values()
            .filter(|p| p.assignment.is_none() && p.gates.is_empty() && !p.terminating)
            .map(|p| p.uid.to_string())
            .collect();
        if free.is_empty() {
            return;
        }
        let uid = free[usize::from(pod) % free.len()].clone();
        let (assignment, now) = (self.assignment(&self.pods[&uid], node, record), self.now);
        self.pods.entry(uid.clone()).and_modify(|p| (p.assignment, p.started_at) = (Some(assignment), Some(now)));
        self.show(&uid);
    }

    /// The API server answers: a bind takes effect where the pod is still there, free and open.
    fn answer(&mut self, which: u8, done: bool, watch_first: bool) {
        if self.open.is_empty() {
            return;
        }
        let open = self.open.remove(usize::from(which) % self.open.len());
        let uid = open.uid.to_string();
        if let Some((node, plan)) = open.volumes {
            return self.answer_volumes(open.ticket, &node, &plan, done, watch_first);
        }
        let free = self.pods.get(&uid).is_some_and(|p| p.assignment.is_none() && !p.terminating && p.gates.is_empty());
        let takes_effect = done && free;
        let outcome = if takes_effect { Outcome::Done } else { Outcome::Failed("the API server refused".into()) };
        if takes_effect && let (Some((node, allocation)), Some(pod)) = (open.bind, self.pods.get_mut(&uid)) {
            pod.assignment = Some(Assignment { node, allocation: Some(allocation) });
            pod.started_at = Some(self.now);
            if watch_first {
                self.show(&uid);
            }
        }
        self.send(Event::ActionFinished { ticket: open.ticket, outcome });
        if takes_effect && !watch_first {
            self.show(&uid);
        }
    }

    /// The volume controller does what was planned, or it fails, perhaps after something was written.
    fn answer_volumes(&mut self, ticket: Ticket, node: &str, plan: &VolumePlan, done: bool, partly: bool) {
        let changes = if done { self.storage.bind(plan, node) } else { None };
        let outcome = match changes {
            Some(_) => Outcome::Done,
            None => Outcome::Failed("the volumes could not be bound".into()),
        };
        let partly = if changes.is_none() && partly { self.storage.bind_partly(plan, node) } else { None };
        for object in changes.into_iter().flatten().chain(partly) {
            self.apply_storage(object);
        }
        self.send(Event::ActionFinished { ticket, outcome });
    }
}

/// A node with two cards, and labels that storage goes by.
pub fn node(name: &str) -> Node {
    let zone = if name.ends_with('1') { "z1" } else { "z0" };
    super::labelled(super::labelled(super::gpu_node(name, 2), storage::HOSTNAME, name), storage::ZONE, zone)
}

fn node_name(n: u8) -> String {
    format!("n{n}")
}

/// Pods of every kind; few sizes, so that classes repeat.
fn shape(name: &str, kind: u8, size: u64) -> Pod {
    let small = CARD / 8 * (1 + size % 6);
    let demand = |demand: Demand| gpu_pod(name, demand);
    let mut pod = match kind {
        0 | 1 => demand(whole(1 + u32::try_from(size % 3).expect("small"))),
        2..=4 => demand(share(small)),
        5 => demand(fraction(250 * (1 + u32::try_from(size % 4).expect("small")))),
        6 => demand(with_compute(small, 10 + u32::try_from(size % 60).expect("small"))),
        7 => demand(Demand::Share {
            memory: gpu_scheduler_engine::model::ShareMemory::Mib(Mib(small)),
            compute: gpu_scheduler_engine::model::Percent(20),
            count: 2,
        }),
        8 => demand(Demand::Seats { count: 1 }),
        9 => demand(Demand::Slices { profile: "1g.5gb".into(), count: 1 + u32::try_from(size % 2).expect("small") }),
        10 | 11 => several_containers(name, small, size),
        12 => {
            let mut pod = super::pod(name);
            pod.containers[0].ports = vec![HostPort {
                ip: String::new(),
                protocol: String::new(),
                port: 80 + u16::from(size.is_multiple_of(2)),
            }];
            pod
        }
        13 => Pod { gates: vec!["wait".into()], ..demand(share(small)) },
        14 => Pod { models: ModelPattern::parse("T4,!A100*"), ..demand(whole(1)) },
        15 => Pod { uuids: vec!["GPU-n0-0".into()], ..demand(share(small)) },
        16 => Pod { required_node: Some("n1".into()), ..demand(share(small)) },
        17 => super::cpu_pod(name, 3000),
        20..=22 => {
            let claims = [format!("c{}", size % 4), format!("c{}", size / 4 % 4)];
            let claims: Vec<&str> =
                claims.iter().take(1 + usize::from(size.is_multiple_of(3))).map(String::as_str).collect();
            storage::using(if kind == 20 { demand(share(small)) } else { super::pod(name) }, &claims)
        }
        23 | 24 => {
            let mut pod = storage::using(super::pod(name), if kind == 24 { &["c1"] } else { &[] });
            pod.volumes.push(storage::disk(&format!("d{}", size % 2), size.is_multiple_of(3)));
            pod
        }
        25 => Pod { volumes: vec![PodVolume::Ephemeral("c3".into())], ..super::pod(name) },
        // Heavy in compute, as others are in memory.
        18 => demand(with_compute(CARD / 8, 40 + u32::try_from(size % 40).expect("small"))),
        _ => super::pod(name),
    };
    if kind.is_multiple_of(2) {
        pod = super::asking(pod, "cpu", Quantity::millis(500 * i64::try_from(1 + size % 4).expect("small")));
    }
    pod
}

/// Init containers, a sidecar, and two app containers.
fn several_containers(name: &str, small: u64, size: u64) -> Pod {
    let mut pod = super::pod(name);
    let container = |name: &str, kind, demand: Demand| {
        let mut container = Container::new(name, kind, [].into());
        container.gpu = vec![demand];
        container
    };
    let init = if size.is_multiple_of(2) { whole(1) } else { share(small) };
    pod.containers = vec![
        container("init", ContainerKind::Init, init),
        container("side", ContainerKind::Sidecar, share(small / 2)),
        container("late", ContainerKind::Init, share(small)),
        container("app", ContainerKind::App, if size.is_multiple_of(3) { whole(1) } else { share(small) }),
        container("more", ContainerKind::App, with_compute(small / 2, 20)),
    ];
    pod
}

/// One of them all; every third time none.
fn topology_manager(n: u64) -> Option<TopologyManager> {
    let policy = match n % 6 {
        0 => TopologyManagerPolicy::BestEffort,
        1 => TopologyManagerPolicy::Restricted,
        2 => TopologyManagerPolicy::SingleNumaNode,
        3 => TopologyManagerPolicy::None,
        _ => return None,
    };
    let scope = if n.is_multiple_of(4) { TopologyManagerScope::Pod } else { TopologyManagerScope::Container };
    Some(TopologyManager { policy, scope })
}
