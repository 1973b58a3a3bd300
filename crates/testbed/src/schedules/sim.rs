//! Plays a schedule: what happens next happens next, and nothing else moves the time.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_cluster::exchange::NoAnswer;
use kube::runtime::watcher::Event;

use super::api::{ApiServer, Written};
use super::broken::Broken;
use super::calls::{InFlight, Reply};
use super::clock::{Base, Instant};
use super::kubelet::Does;
use super::plan::{Kind, Moment, Plan};
use super::replica::Replica;
use super::watch::Step;
use crate::checker::{Book, Rules};
use crate::draw::Draw;

/// How long a late bind may double a card.
const TOLERANCE: std::time::Duration = std::time::Duration::from_secs(5);
/// Happenings of one schedule: more than any comes to.
const MOST: u64 = 300_000;
/// How long it goes on after all was calm.
pub const AFTERWARDS: Moment = 150_000;

/// Something that happens at its time.
#[derive(Debug, Clone)]
pub enum Happening {
    /// A pod of the plan is created.
    Pod(usize),
    /// A pod is created under the name of one that was deleted.
    Again(String),
    /// Another scheduler looks at a pod.
    OtherScheduler(String),
    /// A fault of the plan begins.
    FaultBegins(usize),
    /// A fault of the plan has ended.
    FaultEnds(usize),
    /// Pods of a node that is gone are cleared away.
    Orphans(String),
    /// A kubelet does something for the pod of this name and UID.
    Kubelet(String, String, Does),
    /// An agent reports, urgently or as it does now and then.
    Agent(String, bool),
    /// A request leaves its process.
    Leaves(u64),
    /// A request arrives at the API server.
    Arrives(u64),
    /// Its answer arrives.
    Answered(u64, Result<Reply, NoAnswer>),
    /// Whoever asked waits no longer.
    GivesUp(u64),
    /// Something within a replica, in this life of it and of this term.
    Own(usize, u64, u64, Own),
}

/// Something within a replica.
#[derive(Debug, Clone)]
pub enum Own {
    /// It looks at the Lease.
    Elect,
    /// An attempt at the Lease takes too long.
    AttemptEnds(u64),
    /// The driver decides.
    Work,
    /// A watch goes on.
    Watch(Kind, Step),
    /// A writer has paused.
    TellerIsFree,
    /// An eviction has paused.
    EvictAgain(u64),
}

impl Own {
    /// Whether it outlives a term.
    fn outlives_terms(&self) -> bool {
        matches!(self, Self::Elect | Self::AttemptEnds(_))
    }
}

/// A schedule that is being played.
pub struct Sim {
    /// The schedule.
    pub plan: Plan,
    /// Now.
    pub now: Instant,
    /// Virtual time by the runtime's clock.
    pub base: Base,
    /// What is drawn while it is played.
    pub chance: Draw,
    /// The API server.
    pub api: ApiServer,
    /// The replicas.
    pub replicas: Vec<Replica>,
    /// Requests without an answer.
    pub calls: BTreeMap<u64, InFlight>,
    /// Requests so far.
    pub called: u64,
    /// Objects created so far.
    pub created: u64,
    /// What kubelets are about to do.
    pub kubelet_jobs: BTreeSet<(String, Does)>,
    /// Reports that are about to be written.
    pub reports_due: BTreeSet<(String, bool)>,
    /// The last write that a replica sent.
    pub last_write: (Instant, String),
    /// The checker.
    pub book: Book,
    /// What it was made with.
    pub rules: Rules,
    /// The fault that stops whoever sends the next bind.
    pub freezes_at_bind: Option<usize>,
    /// Who is frozen by which fault.
    frozen: BTreeMap<usize, usize>,
    queue: BTreeMap<(Instant, u64), Happening>,
    sequence: u64,
    broken: Option<Broken>,
    trace: Option<Vec<String>>,
}

impl Sim {
    /// A schedule at its beginning. With a trace, it keeps what happens as text.
    pub fn new(plan: Plan, traced: bool) -> Self {
        let tolerance = if plan.freezes() { TOLERANCE } else { std::time::Duration::ZERO };
        let rules = Rules { tolerance, ..Rules::default() };
        let (base, now) = (Base::new(), Instant(0));
        let mut sim = Self {
            now,
            base,
            chance: Draw::nth(plan.seed, 1),
            api: ApiServer::default(),
            replicas: (0..plan.replicas).map(|number| Replica::new(number, base, now)).collect(),
            calls: BTreeMap::new(),
            called: 0,
            created: 0,
            kubelet_jobs: BTreeSet::new(),
            reports_due: BTreeSet::new(),
            last_write: (now, "nothing".to_owned()),
            book: Book::new(rules.clone()),
            rules,
            frozen: BTreeMap::new(),
            freezes_at_bind: None,
            queue: BTreeMap::new(),
            sequence: 0,
            broken: None,
            trace: traced.then(Vec::new),
            plan,
        };
        sim.create_cluster();
        for number in 0..sim.plan.pods.len() {
            sim.at(Instant(sim.plan.pods[number].at), Happening::Pod(number));
        }
        for number in 0..sim.plan.faults.len() {
            let fault = &sim.plan.faults[number];
            let (begins, ends) = (Instant(fault.at), Instant(fault.ends()));
            sim.at(begins, Happening::FaultBegins(number));
            sim.at(ends, Happening::FaultEnds(number));
        }
        for replica in 0..sim.replicas.len() {
            let pause = sim.chance.below(1_000) as Moment;
            sim.own(replica, now.after(pause), Own::Elect);
        }
        sim.look_on();
        sim
    }

    /// Plays it to its end, and says what does not hold.
    pub fn play(&mut self) -> Option<Broken> {
        let end = Instant(self.plan.calm()).after(AFTERWARDS);
        let mut happened = 0;
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > end {
                break;
            }
            self.now = at;
            happened += 1;
            if happened > MOST {
                self.breaks(Broken::Circles { at, what: "something happens without end" });
            }
            self.happens(happening);
            self.look_on();
            if self.broken.is_some() {
                return self.broken.take();
            }
        }
        self.now = end;
        self.verdict()
    }

    /// What happened, line by line.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// Keeps a line, if lines are kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} {}", self.now.0, line()));
        }
    }

    /// A rule does not hold. The first one counts.
    pub fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// Something is to happen.
    pub fn at(&mut self, at: Instant, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    /// Something is to happen within a replica as it is now.
    pub fn own(&mut self, replica: usize, at: Instant, own: Own) {
        let from = &self.replicas[replica];
        let term = if own.outlives_terms() { 0 } else { from.term_number() };
        self.at(at, Happening::Own(replica, from.life, term, own));
    }

    fn happens(&mut self, happening: Happening) {
        let concerned = match &happening {
            Happening::Own(replica, ..) => Some(*replica),
            Happening::Leaves(number) | Happening::Answered(number, _) | Happening::GivesUp(number) => {
                self.calls.get(number).map(|call| call.replica)
            }
            _ => None,
        };
        if let Some(replica) = concerned
            && self.replicas[replica].frozen
        {
            return self.replicas[replica].held.push(happening);
        }
        match happening {
            Happening::Pod(number) => {
                let plan = self.plan.pods[number].clone();
                self.create_pod(&plan);
            }
            Happening::Again(pod) => self.create_again(pod),
            Happening::OtherScheduler(pod) => self.other_scheduler(&pod),
            Happening::FaultBegins(number) => {
                let fault = self.plan.faults[number].what.clone();
                self.note(|| format!("{fault:?} begins"));
                self.fault_begins(number);
            }
            Happening::FaultEnds(number) => {
                let fault = self.plan.faults[number].what.clone();
                self.note(|| format!("{fault:?} has ended"));
                self.fault_ends(number);
            }
            Happening::Orphans(node) => self.clear_orphans(&node),
            Happening::Kubelet(pod, uid, does) => self.kubelet_does(pod, uid, does),
            Happening::Agent(node, urgent) => self.agent_reports(&node, urgent),
            Happening::Leaves(number) => self.leave(number),
            Happening::Arrives(number) => self.arrive(number),
            Happening::Answered(number, reply) => {
                if let Some(flight) = self.end_call(number) {
                    self.answered(flight, reply);
                }
            }
            Happening::GivesUp(number) => {
                if let Some(flight) = self.end_call(number) {
                    self.answered(flight, Err(NoAnswer::Unknown("no answer in time".to_owned())));
                }
            }
            Happening::Own(replica, life, term, own) => {
                let from = &self.replicas[replica];
                let now = from.term_number();
                if from.up && from.life == life && (own.outlives_terms() || term == now) {
                    self.happens_within(replica, own);
                }
            }
        }
    }

    fn happens_within(&mut self, replica: usize, own: Own) {
        match own {
            Own::Elect => self.elect(replica),
            Own::AttemptEnds(number) => self.attempt_ends(replica, number, Err("no answer in time".to_owned())),
            Own::Work => self.work(replica),
            Own::Watch(kind, step) => self.step_watch(replica, kind, step),
            Own::TellerIsFree => self.teller_is_free(replica),
            Own::EvictAgain(number) => self.evict(replica, number, None),
        }
    }

    /// Whoever looks on sees what was written: the checker at once, the others when they are told.
    fn look_on(&mut self) {
        for written in self.api.take_written() {
            self.note(|| seen(&written));
            if written.kind == Kind::Pods {
                let pod = serde_json::from_value(written.object.value.clone()).expect("the model writes pods");
                let event = if written.deleted { Event::Delete(pod) } else { Event::Apply(pod) };
                self.book.take(self.base.at(self.now), event);
                self.kubelet_sees(&written);
                self.agent_sees(&written);
            }
            self.tell_watchers(written.kind);
        }
    }

    /// Kills a replica: what it had sent may arrive, and nothing else is left of it.
    pub fn kill(&mut self, replica: usize) {
        let (base, now) = (self.base, self.now);
        if let Some(killed) = self.replicas.get_mut(replica) {
            killed.die(base, now);
        }
    }

    /// Starts a replica that was killed.
    pub fn start(&mut self, replica: usize) {
        let Some(started) = self.replicas.get_mut(replica).filter(|replica| !replica.up) else { return };
        started.up = true;
        self.own(replica, self.now, Own::Elect);
    }

    /// Stops whoever leads.
    pub fn freeze_leader(&mut self, fault: usize) {
        let leads = |replica: &Replica| replica.term.is_some() && !replica.frozen;
        if let Some(leader) = self.replicas.iter().position(leads) {
            self.freeze(leader, fault);
        }
    }

    /// Stops a replica.
    pub fn freeze(&mut self, replica: usize, fault: usize) {
        self.note(|| format!("r{replica} is stopped"));
        self.replicas[replica].frozen = true;
        self.frozen.insert(fault, replica);
    }

    /// Lets go on whoever that fault stopped: all that waited comes at once, in some order.
    pub fn thaw(&mut self, fault: usize) {
        self.freezes_at_bind = self.freezes_at_bind.filter(|armed| *armed != fault);
        let Some(replica) = self.frozen.remove(&fault) else { return };
        let thawed = &mut self.replicas[replica];
        if !std::mem::take(&mut thawed.frozen) {
            return;
        }
        self.note(|| format!("r{replica} goes on"));
        for held in std::mem::take(&mut self.replicas[replica].held) {
            let at = self.now.after(self.chance.below(4) as Moment);
            self.at(at, held);
        }
    }
}

fn seen(written: &Written) -> String {
    let object = &written.object.value;
    let name = super::api::name(object);
    let node = super::api::node_of(object).unwrap_or("no node");
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    let going = if super::api::is_terminating(object) { ", on its way out" } else { "" };
    match (written.kind, written.deleted) {
        (kind, true) => format!("{kind:?}: {name} is gone"),
        (Kind::Pods, false) => format!("pod {name}: {node}, {phase}{going}"),
        (kind, false) => format!("{kind:?}: {name} is written"),
    }
}
