//! The cluster that the runner plays: what the API server would know, and the binds that are under way.

use std::collections::{BTreeMap, VecDeque};

use gpu_scheduler_engine::model::{
    Allocation, Assignment, CardSpec, DeviceReport, DeviceStatus, Holder, Millis, Node, Partitioning, Pod, PodUid,
    Ticket, Timestamp,
};
use gpu_scheduler_engine::{
    Action, Condition, ConditionReason, Config, Engine, Event, Outcome, Policy, PreBindStep, Step,
};

use crate::builders::idle_report;
use crate::command::{Command, full_name};
use crate::node_syntax::{CardLine, Report};
use crate::pod_syntax::{NewPod, pod_keys};
use crate::record;
use crate::words::Args;

/// Polls without an action after which the engine is taken to spin.
const BUSY_LIMIT: u32 = 20_000;
/// Actions of one instant after which the engine is taken to act in circles.
const ACTION_LIMIT: u32 = 20_000;

/// How messages begin that blame the engine, not the scenario.
const ENGINE_FAULT: &str = "the engine ";

/// A bind that was asked for and has no answer yet.
#[derive(Debug, Clone)]
struct OpenBind {
    ticket: Ticket,
    pod: String,
    uid: PodUid,
    node: String,
    allocation: Allocation,
}

/// A pod object. A finished one is still there, but holds nothing.
#[derive(Debug, Clone)]
pub(crate) struct PodObject {
    pub pod: Pod,
    pub finished: bool,
}

/// Cluster, engine and clock.
pub(crate) struct World {
    pub engine: Engine,
    pub policy: Policy,
    pub now: Timestamp,
    pub nodes: BTreeMap<String, Node>,
    pub reports: BTreeMap<String, DeviceReport>,
    pub pods: BTreeMap<String, PodObject>,
    pub output: Vec<String>,
    /// Whether commands that make no sense are skipped.
    pub skips_nonsense: bool,
    /// UIDs that a name ever had.
    lives: BTreeMap<String, u32>,
    open: VecDeque<OpenBind>,
    holding: bool,
    refused: BTreeMap<String, String>,
    on_bind: BTreeMap<String, Vec<Command>>,
}

impl World {
    pub fn new(policy: Policy, steps_per_poll: Option<u32>) -> Self {
        let mut config = Config::with_policy(policy);
        config.steps_per_poll = steps_per_poll.unwrap_or(config.steps_per_poll);
        Self {
            engine: Engine::new(config),
            policy,
            now: Timestamp(0),
            nodes: BTreeMap::new(),
            reports: BTreeMap::new(),
            pods: BTreeMap::new(),
            output: Vec::new(),
            skips_nonsense: false,
            lives: BTreeMap::new(),
            open: VecDeque::new(),
            holding: false,
            refused: BTreeMap::new(),
            on_bind: BTreeMap::new(),
        }
    }

    /// Whether an error ends the play: those of the engine always do.
    pub fn blames(&self, what: &str) -> bool {
        !self.skips_nonsense || what.starts_with(ENGINE_FAULT)
    }

    pub fn tell(&mut self, event: Event) {
        self.engine.handle(self.now, event);
    }

    /// Whether a bind has no answer yet.
    pub fn has_open_binds(&self) -> bool {
        !self.open.is_empty()
    }

    // ---- nodes -------------------------------------------------------------------------------------

    pub fn apply_node(&mut self, node: &Node) {
        self.nodes.insert(node.name.clone(), node.clone());
        self.tell(Event::NodeApplied(Box::new(node.clone())));
    }

    pub fn delete_node(&mut self, name: &str) -> Result<(), String> {
        self.nodes.remove(name).ok_or_else(|| format!("there is no node {name}"))?;
        self.tell(Event::NodeDeleted { name: name.to_owned() });
        Ok(())
    }

    /// The agent reports the cards that the node has, with UUIDs of their own, idle but for `lines`.
    pub fn report(&mut self, report: &Report) -> Result<(), String> {
        let known = self.nodes.get(&report.node).map(|n| n.cards.clone()).filter(|c| !c.is_empty());
        let mut cards: Vec<CardSpec> = known.unwrap_or_else(|| report.cards.clone());
        for card in &mut cards {
            if card.uuid == CardSpec::made_up_uuid(&report.node, card.index) {
                card.uuid = format!("GPU-{}-{}", report.node, card.index);
            }
            // Seats are kubelet's business; an agent's report does not tell of them.
            if let Partitioning::TimeSliced { .. } = card.partitioning {
                card.partitioning = Partitioning::OnDemand;
            }
        }
        let updated_at = Timestamp(self.now.0.saturating_sub(report.age));
        let mut devices = idle_report(&report.node, &cards, updated_at);
        devices.topology_manager = report.topology_manager;
        for line in &report.lines {
            let device = devices.devices.iter_mut().find(|d| d.card.index == line.index);
            let device = device.ok_or_else(|| format!("node {} has no card {}", report.node, line.index))?;
            self.measure(device, line)?;
        }
        let gone = |index: u32| report.lines.iter().any(|l| l.gone && l.index == index);
        devices.devices.retain(|d| !gone(d.card.index));
        self.reports.insert(report.node.clone(), devices.clone());
        self.tell(Event::DevicesReported(Box::new(devices)));
        Ok(())
    }

    fn measure(&self, device: &mut DeviceStatus, line: &CardLine) -> Result<(), String> {
        line.apply(&mut device.card);
        (device.used, device.foreign) = (line.used, line.foreign);
        for (pod, used) in &line.holders {
            let holder = self.object(&full_name(pod))?;
            device.holders.push(Holder { pod: holder.pod.uid.clone(), used: *used });
        }
        Ok(())
    }

    pub fn unreport(&mut self, node: &str) -> Result<(), String> {
        self.reports.remove(node).ok_or_else(|| format!("node {node} has no report"))?;
        self.tell(Event::DeviceReportDeleted { node: node.to_owned() });
        Ok(())
    }

    // ---- pods --------------------------------------------------------------------------------------

    fn object(&self, name: &str) -> Result<&PodObject, String> {
        self.pods.get(name).ok_or_else(|| format!("there is no pod {name}"))
    }

    fn object_mut(&mut self, name: &str) -> Result<&mut PodObject, String> {
        self.pods.get_mut(name).ok_or_else(|| format!("there is no pod {name}"))
    }

    fn show_pod(&mut self, name: &str) -> Result<(), String> {
        let pod = self.object(name)?.pod.clone();
        self.tell(Event::PodApplied(Box::new(pod)));
        Ok(())
    }

    pub fn submit(&mut self, new: &NewPod) -> Result<(), String> {
        let name = format!("{}/{}", new.pod.namespace, new.pod.name);
        if self.pods.contains_key(&name) {
            return Err(format!("pod {name} exists; use update, or delete it first"));
        }
        let life = self.lives.entry(name.clone()).or_default();
        *life += 1;
        let mut pod = new.pod.clone();
        // A pod of the same name that comes later is another pod.
        pod.uid = format!("uid-{name}-{life}").as_str().into();
        pod.created_at = new.created.unwrap_or(self.now);
        self.pods.insert(name.clone(), PodObject { pod, finished: false });
        self.show_pod(&name)
    }

    pub fn update(&mut self, name: &str, changes: &Args) -> Result<(), String> {
        let object = self.object_mut(name)?;
        pod_keys(&mut changes.clone(), &mut object.pod)?;
        self.show_pod(name)
    }

    pub fn bound(&mut self, name: &str, node: &str, text: Option<&str>) -> Result<(), String> {
        // A record is written by who knows the cards, so the agent's word comes first.
        let reported = self.reports.get(node).map(|r| r.devices.iter().map(|d| d.card.clone()).collect());
        let cards: Vec<CardSpec> =
            reported.or_else(|| self.nodes.get(node).map(|n| n.cards.clone())).unwrap_or_default();
        let allocation = text.map(|t| record::read(t, node, &cards)).transpose()?;
        let admitted = self.admission(node);
        let object = self.object_mut(name)?;
        object.pod.started_at = object.pod.started_at.or(admitted);
        object.pod.assignment = Some(Assignment { node: node.to_owned(), allocation });
        self.show_pod(name)
    }

    /// When kubelet admits what is bound to the node now: at once, where somebody waits for that.
    fn admission(&self, node: &str) -> Option<Timestamp> {
        let aligns = self.reports.get(node).and_then(|r| r.topology_manager).is_some_and(|it| it.aligns());
        aligns.then_some(self.now)
    }

    pub fn echo(&mut self, name: &str) -> Result<(), String> {
        let bind = self.open.iter().find(|b| b.pod == name);
        let bind = bind.ok_or_else(|| format!("no bind of {name} is open; use hold-binds first"))?.clone();
        self.object_mut(name)?.pod.assignment = Some(Assignment { node: bind.node, allocation: Some(bind.allocation) });
        self.show_pod(name)
    }

    pub fn terminate(&mut self, name: &str) -> Result<(), String> {
        self.object_mut(name)?.pod.terminating = true;
        self.show_pod(name)
    }

    pub fn finish(&mut self, name: &str) -> Result<(), String> {
        let object = self.object_mut(name)?;
        object.finished = true;
        let uid = object.pod.uid.clone();
        self.tell(Event::PodDeleted { uid });
        Ok(())
    }

    pub fn delete(&mut self, name: &str) -> Result<(), String> {
        let object = self.pods.remove(name).ok_or_else(|| format!("there is no pod {name}"))?;
        self.tell(Event::PodDeleted { uid: object.pod.uid });
        Ok(())
    }

    // ---- binds -------------------------------------------------------------------------------------

    pub fn hold_binds(&mut self) {
        self.holding = true;
    }

    pub fn release_binds(&mut self) -> Result<(), String> {
        self.holding = false;
        while let Some(bind) = self.open.front().cloned() {
            self.answer(&bind.pod, None)?;
        }
        Ok(())
    }

    pub fn on_bind(&mut self, name: &str, then: &Command) {
        self.on_bind.entry(name.to_owned()).or_default().push(then.clone());
    }

    pub fn refuse(&mut self, name: &str, why: &str) {
        self.refused.insert(name.to_owned(), why.to_owned());
    }

    pub fn accept(&mut self, name: &str) -> Result<(), String> {
        self.refused.remove(name).map(drop).ok_or_else(|| format!("binds of {name} are not refused"))
    }

    /// Answers the oldest open bind of a pod: it took effect, or failed for this reason.
    pub fn answer(&mut self, name: &str, failure: Option<&str>) -> Result<(), String> {
        let at = self.open.iter().position(|b| b.pod == name);
        let at = at.ok_or_else(|| format!("no bind of {name} is open; use hold-binds before the pod is placed"))?;
        let bind = self.open.remove(at).expect("the position was just found");
        if let Some(why) = failure {
            self.tell(Event::ActionFinished { ticket: bind.ticket, outcome: Outcome::Failed(why.to_owned()) });
            return Ok(());
        }
        let admitted = self.admission(&bind.node);
        let object = self.pods.get_mut(name).filter(|o| o.pod.uid == bind.uid && !o.finished);
        let alive = object.is_some();
        if let Some(object) = object {
            match &object.pod.assignment {
                Some(other) if other.node != bind.node => {
                    return Err(format!(
                        "{name} is on {} already, so the bind cannot succeed; use fail-bind",
                        other.node
                    ));
                }
                _ => {
                    object.pod.started_at = object.pod.started_at.or(admitted);
                    object.pod.assignment = Some(Assignment { node: bind.node, allocation: Some(bind.allocation) });
                }
            }
        }
        self.tell(Event::ActionFinished { ticket: bind.ticket, outcome: Outcome::Done });
        if alive { self.show_pod(name) } else { Ok(()) }
    }

    // ---- the engine --------------------------------------------------------------------------------

    /// Polls until the engine rests, and carries out what it asks.
    pub fn settle(&mut self) -> Result<(), String> {
        let (mut busy, mut actions) = (0, 0);
        loop {
            match self.engine.poll(self.now) {
                Step::Rest => break,
                Step::Busy => {
                    busy += 1;
                    if busy > BUSY_LIMIT {
                        return Err(format!("the engine stays busy: {BUSY_LIMIT} polls without an action"));
                    }
                }
                Step::Act(action) => {
                    (busy, actions) = (0, actions + 1);
                    if actions > ACTION_LIMIT {
                        return Err(format!("the engine does not come to rest: {ACTION_LIMIT} actions in one instant"));
                    }
                    self.perform(action)?;
                }
            }
        }
        match self.engine.next_wakeup() {
            Some(at) if at <= self.now => Err(format!("the engine rests, but asks to be woken at {at}, which is past")),
            _ => Ok(()),
        }
    }

    /// Lets time pass, and wakes the engine whenever it asked for it.
    pub fn advance(&mut self, by: u64) -> Result<(), String> {
        self.settle()?;
        let target = self.now + Millis(by);
        loop {
            let next = self.engine.next_wakeup().filter(|at| *at < target);
            self.now = next.unwrap_or(target);
            let before = self.output.len();
            self.settle()?;
            if self.output.len() > before {
                self.output.insert(before, format!("at {}:", seconds(self.now)));
            }
            if next.is_none() {
                return Ok(());
            }
        }
    }

    fn perform(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Report(notice) => self.output.push(format!("report: {notice}")),
            Action::SetCondition { pod, condition: Condition { reason, message, .. }, .. } => {
                let what = match reason {
                    ConditionReason::Unschedulable => "pending",
                    ConditionReason::SchedulerError => "error",
                };
                // That nobody could make room goes without saying, and would stand behind every reason.
                let message = message.split(" preemption: 0/").next().unwrap_or_default();
                self.output.push(format!("{what} {pod}: {message}"));
            }
            Action::Nominate { pod, node, .. } => {
                let node = node.map_or_else(|| "nowhere".to_owned(), |node| node.to_string());
                self.output.push(format!("nominate {pod} -> {node}"));
            }
            Action::Evict { uid, pod, node, reason, message, .. } => {
                self.output.push(format!("evict {pod} from {node} ({reason}): {message}"));
                self.pods.retain(|_, object| object.pod.uid != uid);
                self.tell(Event::PodDeleted { uid });
            }
            Action::PreBind { ticket, pod, node, step, .. } => {
                let what = match step {
                    PreBindStep::BindVolumes(plan) => {
                        format!("{} volumes", plan.bindings.len() + plan.provisions.len())
                    }
                    PreBindStep::Other { plugin, work } => format!("{plugin}: {work}"),
                };
                self.output.push(format!("prebind {pod} -> {node} {what}"));
                self.tell(Event::ActionFinished { ticket, outcome: Outcome::Done });
            }
            Action::Bind { ticket, uid, pod, node, allocation } => {
                let mut line = format!("bind {pod} -> {node}");
                if !allocation.containers.is_empty() {
                    line = format!("{line} {}", record::print(&allocation));
                }
                self.output.push(line);
                let pod = pod.to_string();
                let refusal = self.refused.get(&pod).cloned();
                self.open.push_back(OpenBind { ticket, pod: pod.clone(), uid, node: node.to_string(), allocation });
                if refusal.is_some() || !self.holding {
                    self.answer(&pod, refusal.as_deref())?;
                }
                for then in self.on_bind.remove(&pod).unwrap_or_default() {
                    match crate::run::perform(self, &then) {
                        Err(what) if self.blames(&what) => return Err(what),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// A point in time for people.
pub(crate) fn seconds(at: Timestamp) -> String {
    if at.0.is_multiple_of(1000) { format!("{}s", at.0 / 1000) } else { format!("{}ms", at.0) }
}
