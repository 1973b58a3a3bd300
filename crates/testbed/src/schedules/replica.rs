//! One replica of the scheduler: a process that can be killed, stopped and started, its part in the election, and the term
//! that it serves.

use std::collections::BTreeMap;

use gpu_scheduler_cluster::driver::{Around, BindOrder, Change, Driver, Input, Limits};
use gpu_scheduler_cluster::exchange::{Desk, Evicting};
use gpu_scheduler_cluster::journal::Recorded;
use gpu_scheduler_cluster::live::{Election, Fence, Purpose, TELLERS, Tenure, Times};
use gpu_scheduler_engine::{Config, Engine};

use super::clock::{Base, Instant};
use super::sim::Happening;
use super::watch::Stream;

/// A replica.
pub struct Replica {
    /// Its name.
    pub name: String,
    /// How often it was started. What belongs to an earlier life means nothing.
    pub life: u64,
    /// Whether its process is there.
    pub up: bool,
    /// Whether its process is stopped; then what concerns it waits.
    pub frozen: bool,
    /// What waits.
    pub held: Vec<Happening>,
    /// Its view of the Lease.
    pub election: Election,
    /// Until when it may write.
    pub fence: Fence,
    /// An attempt at the Lease that is under way.
    pub attempt: Option<Attempt>,
    /// Attempts so far.
    pub attempts: u64,
    /// The term that it serves.
    pub term: Option<Term>,
    /// Terms so far, of all lives.
    pub terms: u64,
}

/// An attempt at the Lease.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// Which one.
    pub number: u64,
    /// When it began.
    pub sent: Instant,
    /// When it is given up.
    pub until: Instant,
    /// What for.
    pub purpose: Purpose,
}

impl Replica {
    /// One that has just been started.
    pub fn new(number: usize, base: Base, now: Instant) -> Self {
        let name = format!("r{number}");
        let (election, fence) = candidate(&name, 0, base, now);
        Self {
            name,
            life: 0,
            up: true,
            frozen: false,
            held: Vec::new(),
            election,
            fence,
            attempt: None,
            attempts: 0,
            term: None,
            terms: 0,
        }
    }

    /// By what name the Lease knows this life of it.
    pub fn identity(&self) -> String {
        identity(&self.name, self.life)
    }

    /// The number of the term that it serves; 0: none.
    pub fn term_number(&self) -> u64 {
        self.term.as_ref().map_or(0, |term| term.number)
    }

    /// Its process is gone, with everything in it.
    pub fn die(&mut self, base: Base, now: Instant) {
        self.life += 1;
        self.up = false;
        self.frozen = false;
        self.held.clear();
        (self.election, self.fence) = candidate(&self.name, self.life, base, now);
        self.attempt = None;
        self.term = None;
    }
}

fn identity(name: &str, life: u64) -> String {
    format!("{name}_{life}")
}

fn candidate(name: &str, life: u64, base: Base, now: Instant) -> (Election, Fence) {
    (Election::new(identity(name, life), Times::default().lease), Fence::closed_at(base.at(now)))
}

/// A term: it begins with nothing and leaves nothing.
pub struct Term {
    /// Which one of its replica's.
    pub number: u64,
    /// Decides.
    pub driver: Driver,
    /// Whether it lasts.
    pub tenure: Tenure,
    /// What is to be told.
    pub desk: Desk,
    /// Writers that tell nothing at the moment.
    pub tellers: usize,
    /// Evictions under way.
    pub evictions: BTreeMap<u64, Evicting>,
    /// Evictions so far.
    pub evicted: u64,
    /// Binds that wait until what their pod says is written.
    pub hushing: Vec<BindOrder>,
    /// The watches.
    pub streams: [Stream; 4],
    /// Whether a look at what came in is due.
    pub work_due: bool,
    /// When it wakes by itself.
    pub wake: Option<Instant>,
}

impl Term {
    /// One that begins.
    pub fn new(number: u64, tenure: Tenure, now: Instant) -> Self {
        Self {
            number,
            driver: driver(now),
            tenure,
            desk: Desk::default(),
            tellers: TELLERS,
            evictions: BTreeMap::new(),
            evicted: 0,
            hushing: Vec::new(),
            streams: Default::default(),
            work_due: false,
            wake: None,
        }
    }
}

/// A driver that has seen all there is of kinds of which there is nothing.
pub fn driver(now: Instant) -> Driver {
    let engine = Engine::new(Config::default());
    #[cfg(feature = "planted-bugs")]
    let engine = planted(engine);
    let mut driver = Driver::new(Recorded::new(engine, None), Limits::default());
    for around in [
        Around::Namespaces(Change::Absent),
        Around::Services(Change::Absent),
        Around::ReplicationControllers(Change::Absent),
        Around::ReplicaSets(Change::Absent),
        Around::StatefulSets(Change::Absent),
        Around::DisruptionBudgets(Change::Absent),
        Around::Claims(Change::Absent),
        Around::Volumes(Change::Absent),
        Around::StorageClasses(Change::Absent),
        Around::CsiNodes(Change::Absent),
        Around::CsiDrivers(Change::Absent),
        Around::Capacities(Change::Absent),
        Around::Attachments(Change::Absent),
    ] {
        driver.handle(now.stamp(), Input::Around(around));
    }
    driver
}

/// With the fault that is planted, if it is one of the engine's.
#[cfg(feature = "planted-bugs")]
fn planted(mut engine: Engine) -> Engine {
    use gpu_scheduler_cluster::planted::{Bug, is_planted};
    if is_planted(Bug::FailuresAreForgotten) {
        engine.forget_failures();
    }
    engine
}
