//! `run`: the scheduler on a live cluster.
//!
//! A replica stands by until it holds the Lease, then serves one term: it lists and watches the cluster into an
//! engine of its own, decides once everything has been seen, and writes while its [`Fence`] is open. When the term
//! ends all of it is dropped, so nothing of a term can act in another.

mod client;
mod clock;
mod election;
mod fence;
mod lease;
mod right_of_way;
mod spans;
mod teller;
mod tenure;
mod term;
mod volume_writer;
mod watch;
mod watched;
mod writer;

use std::convert::Infallible;

use gpu_scheduler_engine::Engine;
use kube::Client;
use tokio::sync::{mpsc, watch as signal};
use tracing::{error, info, warn};

use crate::config::RunConfig;
use crate::driver::{Driver, Limits};
use crate::journal::{Journal, JournalOptions, Recorded};
use crate::metrics::Metrics;
use crate::serve::Health;
use term::Term;

pub use client::{ClientError, clients};
pub use election::{Election, Purpose, Record, Times, Wish};
pub use fence::Fence;
pub use lease::{Elector, LeaseName};
pub use spans::SPANS;
pub use teller::{AGAIN, Reporter, TELLERS};
pub use tenure::{Lost, Tenure};
pub use term::Question;
pub use writer::{PATIENCE, Writer};

/// How to take part in an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidacy {
    /// The Lease.
    pub lease: LeaseName,
    /// Its times.
    pub times: Times,
}

/// What a scheduler needs.
pub struct Scheduler {
    /// Reads; may retry by itself.
    pub client: Client,
    /// Writes; must not retry by itself, because a repeated bind is decided on here.
    pub writes: Client,
    /// The configuration: each term makes an engine of its own by it.
    pub config: RunConfig,
    /// Limits of the driver.
    pub limits: Limits,
    /// The election; `None` where no other replica can be.
    pub candidacy: Option<Candidacy>,
    /// Who tells events.
    pub reporter: Reporter,
    /// Metrics.
    pub metrics: Metrics,
    /// Health.
    pub health: Health,
    /// Questions to the engine.
    pub questions: mpsc::Receiver<Question>,
    /// Becomes true when the process is asked to end.
    pub shutdown: signal::Receiver<bool>,
}

impl Scheduler {
    /// Runs until the process is asked to end: stands by, leads, and stands by again after a lost term.
    pub async fn run(mut self) {
        let mut elector =
            self.candidacy.clone().map(|c| Elector::new(self.writes.clone(), c.lease, c.times, self.health.clone()));
        let lease = self.candidacy.as_ref().map(|c| c.lease.name.clone()).unwrap_or_default();
        loop {
            let mut shutdown = self.shutdown.clone();
            let (fence, tenure) = match &mut elector {
                None => (Fence::open(), None),
                Some(elector) => {
                    // A replica that stands by has nothing to see yet, and is ready to lead.
                    self.health.set_synced(true);
                    let tenure = tokio::select! {
                        tenure = elector.acquire() => tenure,
                        never = stand_by(&self.health, &mut self.questions) => match never {},
                        _ = shutdown.wait_for(|down| *down) => return,
                    };
                    (elector.fence(), Some(tenure))
                }
            };
            self.metrics.leader(&lease, true);
            let span = spans::lead(self.candidacy.as_ref().map(|c| &c.lease), &self.reporter.instance);
            self.health.set_synced(false);
            let engine = Recorded::new(Engine::new(self.config.engine_config()), self.journal());
            let driver = Driver::new(engine, self.limits);
            let term = Term {
                client: self.client.clone(),
                writes: self.writes.clone(),
                fence,
                reporter: self.reporter.clone(),
                metrics: self.metrics.clone(),
                health: self.health.clone(),
                questions: &mut self.questions,
                shutdown: self.shutdown.clone(),
            };
            let lost = match elector.as_mut().zip(tenure) {
                None => {
                    term.run(driver).await;
                    None
                }
                Some((elector, tenure)) => {
                    tokio::select! {
                        () = term.run(driver) => {
                            elector.release().await;
                            None
                        }
                        lost = elector.hold(tenure) => {
                            warn!(%lost, "leads no more; what was assumed is dropped");
                            Some(lost)
                        }
                    }
                }
            };
            spans::led(&span, lost.as_ref());
            self.metrics.leader(&lease, false);
            self.health.set_leader(None);
            if lost.is_none() {
                info!("ended");
                return;
            }
        }
    }

    /// A journal for one term, if one is asked for. One that cannot be written costs itself, not the cluster.
    fn journal(&self) -> Option<Journal> {
        let settings = self.config.journal.as_ref()?;
        let configuration = serde_json::from_str(&self.config.to_json()).unwrap_or_default();
        match Journal::open(&JournalOptions::from(settings), configuration) {
            Ok(journal) => Some(journal),
            Err(error) => {
                error!(%error, directory = %settings.directory.display(), "there is no journal of this term");
                None
            }
        }
    }
}

/// Answers questions with "not known" and shows signs of life, for as long as somebody else leads.
async fn stand_by(health: &Health, questions: &mut mpsc::Receiver<Question>) -> Infallible {
    loop {
        health.beat();
        tokio::select! {
            Some(question) = questions.recv() => drop(question.answer.send(None)),
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
        }
    }
}
