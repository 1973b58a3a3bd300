//! Whether the process is well, as the kubelet asks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long the decision loop may take to turn once before the process counts as stuck.
const LOOP_LIMIT: Duration = Duration::from_secs(60);
/// How long after its lease ran out a leader that has not stepped down counts as stuck, as in client-go.
const LEASE_GRACE: Duration = Duration::from_secs(20);

/// The state of the process, set by whoever runs it and read by the server. A clone is another handle on the same.
///
/// Times are tokio's, so that tests can pause them.
#[derive(Debug, Clone)]
pub struct Health {
    inner: Arc<Mutex<Facts>>,
    lease: Duration,
}

#[derive(Debug)]
struct Facts {
    synced: bool,
    shutting_down: bool,
    renewed: Option<Instant>,
    turned: Instant,
}

/// A question of the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// Is it well? (`/healthz`)
    Health,
    /// Does it live, or must it be started again? (`/livez`)
    Live,
    /// Can it do its work? (`/readyz`)
    Ready,
}

impl Probe {
    /// Its name, as the text of an answer has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Live => "livez",
            Self::Ready => "readyz",
        }
    }

    /// What is asked for it.
    fn checks(self) -> &'static [Check] {
        match self {
            Self::Health => &[Check::Ping, Check::DecisionLoop, Check::LeaderElection],
            // A lost lease is no reason to kill: the process ends by itself then, in order.
            Self::Live => &[Check::Ping, Check::DecisionLoop],
            Self::Ready => &[Check::Ping, Check::LeaderElection, Check::Shutdown, Check::HandlerSync],
        }
    }
}

/// One check, by kube-scheduler's name where it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Ping,
    DecisionLoop,
    LeaderElection,
    Shutdown,
    HandlerSync,
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::DecisionLoop => "decision-loop",
            Self::LeaderElection => "leaderElection",
            Self::Shutdown => "shutdown",
            Self::HandlerSync => "sched-handler-sync",
        }
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    probe: Probe,
    /// The checks in order, with what is wrong.
    checks: Vec<(&'static str, Option<String>)>,
}

impl Answer {
    /// Whether all is well.
    pub fn is_ok(&self) -> bool {
        self.checks.iter().all(|(_, failure)| failure.is_none())
    }

    /// `ok`; all checks where something failed or `verbose` asks for them.
    pub fn text(&self, verbose: bool) -> String {
        if self.is_ok() && !verbose {
            return "ok".to_owned();
        }
        self.to_string()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, failure) in &self.checks {
            match failure {
                None => writeln!(f, "[+]{name} ok")?,
                Some(why) => writeln!(f, "[-]{name} failed: {why}")?,
            }
        }
        let end = if self.is_ok() { "passed" } else { "failed" };
        writeln!(f, "{} check {end}", self.probe.name())
    }
}

impl Health {
    /// A process that has just begun: not synced, not the leader, its loop turned now. `lease` is the lease's duration.
    pub fn new(lease: Duration) -> Self {
        let facts = Facts { synced: false, shutting_down: false, renewed: None, turned: Instant::now() };
        Self { inner: Arc::new(Mutex::new(facts)), lease }
    }

    /// Whether all watches have brought what there is.
    pub fn set_synced(&self, synced: bool) {
        self.facts().synced = synced;
    }

    /// When the lease was last renewed, on the leader; `None` on a standby.
    pub fn set_leader(&self, renewed: Option<Instant>) {
        self.facts().renewed = renewed;
    }

    /// The process ends: no more work for it.
    pub fn set_shutting_down(&self) {
        self.facts().shutting_down = true;
    }

    /// The decision loop turned. Call it at every turn, on a standby too; a loop with nothing to do must wake up for it
    /// well within a minute.
    pub fn beat(&self) {
        self.facts().turned = Instant::now();
    }

    /// Asks. A standby that is synced is ready: it can take over at any time.
    pub fn answer(&self, probe: Probe) -> Answer {
        let facts = self.facts();
        let checks = probe.checks().iter().map(|check| (check.name(), self.failure(&facts, *check))).collect();
        Answer { probe, checks }
    }

    fn failure(&self, facts: &Facts, check: Check) -> Option<String> {
        match check {
            Check::Ping => None,
            Check::DecisionLoop => {
                let idle = facts.turned.elapsed();
                (idle > LOOP_LIMIT).then(|| format!("the decision loop has not turned for {} s", idle.as_secs()))
            }
            Check::LeaderElection => {
                let age = facts.renewed.map(|renewed| renewed.elapsed()).filter(|age| *age > self.lease + LEASE_GRACE);
                age.map(|age| format!("it leads, and the lease was last renewed {} s ago", age.as_secs()))
            }
            Check::Shutdown => facts.shutting_down.then(|| "the process is shutting down".to_owned()),
            Check::HandlerSync => {
                (!facts.synced).then(|| "the first lists of nodes and pods have not all come in".to_owned())
            }
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn failed(health: &Health, probe: Probe) -> Vec<&'static str> {
        health.answer(probe).checks.into_iter().filter(|(_, why)| why.is_some()).map(|(name, _)| name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_synced_standby_is_ready() {
        let health = Health::new(LEASE);
        assert_eq!(failed(&health, Probe::Ready), ["sched-handler-sync"]);
        assert!(health.answer(Probe::Live).is_ok());
        health.set_synced(true);
        assert!(health.answer(Probe::Ready).is_ok());
        health.set_shutting_down();
        assert_eq!(failed(&health, Probe::Ready), ["shutdown"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_not_alive() {
        let health = Health::new(LEASE);
        tokio::time::advance(LOOP_LIMIT).await;
        assert!(health.answer(Probe::Live).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(failed(&health, Probe::Live), ["decision-loop"]);
        assert_eq!(failed(&health, Probe::Health), ["decision-loop"]);
        health.beat();
        assert!(health.answer(Probe::Live).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_does_not_renew_is_not_well() {
        let health = Health::new(LEASE);
        health.set_synced(true);
        health.set_leader(Some(Instant::now()));
        tokio::time::advance(LEASE + LEASE_GRACE).await;
        assert!(health.answer(Probe::Ready).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(failed(&health, Probe::Ready), ["leaderElection"]);
        assert!(health.answer(Probe::Live).is_ok());
        health.set_leader(None);
        assert!(health.answer(Probe::Ready).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn texts_are_those_of_kubernetes() {
        let health = Health::new(LEASE);
        assert_eq!(health.answer(Probe::Live).text(false), "ok");
        assert_eq!(health.answer(Probe::Live).text(true), "[+]ping ok\n[+]decision-loop ok\nlivez check passed\n");
        let text = health.answer(Probe::Ready).text(false);
        assert!(text.contains("[-]sched-handler-sync failed: ") && text.ends_with("readyz check failed\n"), "{text}");
    }
}
