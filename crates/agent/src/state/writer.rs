//! Writes reports and labels: always the newest, one at a time, and never a queue of them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::MANAGER;
use super::backoff::Backoff;
use super::build::{annotations, seconds};
use super::cadence::{Cadence, Report, Wait};
use super::document::Status;
use super::object::{Refused, StateObject};
use super::trouble::{Said, Target, reason};
use crate::labels::{self, Labels};
use crate::metrics::{Metrics, WriteResult};

/// How long the API server may take for a write.
const PATIENCE: Duration = Duration::from_secs(20);
/// When labels are written again that are as they should be.
const LABELS_AGAIN: Duration = Duration::from_secs(30 * 60);

/// What is to be on the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The node's status.
    pub status: Status,
    /// Its labels, without the time.
    pub labels: Labels,
    /// Leave the time out of them when they are written.
    pub no_timestamp: bool,
}

/// The writer of one node.
#[derive(Debug)]
pub struct Writer {
    node: String,
    nodes: Api<Node>,
    state: StateObject,
    cadence: Cadence,
    /// When labels were written last, and which.
    labels: Option<(Duration, Labels)>,
    labels_backoff: Backoff,
    said: Said,
    metrics: Metrics,
    begun: Instant,
}

impl Writer {
    /// A writer that has written nothing yet. The client should not repeat what failed: what is newest then is tried
    /// instead.
    pub fn new(client: Client, node: &str, metrics: Metrics) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            state: StateObject::new(client, node),
            node: node.to_owned(),
            cadence: Cadence::default(),
            labels: None,
            labels_backoff: Backoff::default(),
            said: Said::default(),
            metrics,
            begun: Instant::now(),
        }
    }

    /// Does what is due, one write at most; until when there is nothing to do if nothing moves.
    async fn step(&mut self, desired: &Desired) -> Instant {
        let now = self.begun.elapsed();
        let labels_at = self.labels_at(&desired.labels);
        if labels_at <= now {
            self.write_labels(desired).await;
            return self.begun + now;
        }
        let reports_at = match self.cadence.next(now, &desired.status) {
            Wait::Until(at) => at,
            Wait::Write(report) => {
                self.write_report(report, &desired.status).await;
                now
            }
        };
        self.begun + labels_at.min(reports_at)
    }

    /// From when on labels may be written. Those that are as they should be are written again after a while: somebody may
    /// have taken them away.
    fn labels_at(&self, labels: &Labels) -> Duration {
        let due = match &self.labels {
            Some((at, written)) if written == labels => *at + LABELS_AGAIN,
            _ => Duration::ZERO,
        };
        due.max(self.labels_backoff.until())
    }

    async fn write_labels(&mut self, desired: &Desired) {
        let now = jiff::Timestamp::now().as_second();
        let stamped = labels::stamped(&desired.labels, desired.no_timestamp, u64::try_from(now).unwrap_or_default());
        let request = labels::write(&self.nodes, &self.node, &stamped);
        match in_time(async { Ok(request.await?) }).await {
            Ok(()) => {
                self.labels = Some((self.begun.elapsed(), desired.labels.clone()));
                self.labels_backoff = Backoff::default();
                self.worked(Target::Labels);
            }
            Err(why) => {
                self.labels_backoff.failed(self.begun.elapsed());
                self.failed(Target::Labels, &why);
            }
        }
    }

    async fn write_report(&mut self, report: Report, status: &Status) {
        let mut stamped = status.clone();
        stamped.updated_at = seconds(jiff::Timestamp::now());
        let result = match report {
            Report::State => {
                let result = in_time(self.state.write(&stamped)).await;
                self.metrics.other_agents(self.state.others());
                result
            }
            Report::Annotations => in_time(annotate(&self.nodes, &self.node, &stamped)).await,
        };
        // The time at which it was written, not begun: a slow API server is not to be asked the sooner for it.
        let now = self.begun.elapsed();
        match result {
            Ok(()) => {
                self.cadence.wrote(report, now, &stamped);
                self.worked(report.into());
            }
            Err(why) => {
                self.cadence.failed(report, now);
                self.failed(report.into(), &why);
            }
        }
    }

    fn worked(&mut self, target: Target) {
        self.said.worked(target);
        self.metrics.wrote(target, WriteResult::Done);
    }

    fn failed(&mut self, target: Target, why: &str) {
        self.said.failed(target, &self.node, why);
        self.metrics.wrote(target, WriteResult::Failed);
    }
}

async fn annotate(nodes: &Api<Node>, node: &str, status: &Status) -> Result<(), Refused> {
    let mut annotations = annotations(status);
    annotations.insert("gpu-scheduler/updated-at".to_owned(), status.updated_at.clone());
    let patch = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": annotations}});
    nodes.patch_metadata(node, &PatchParams::apply(MANAGER).force(), &Patch::Apply(patch)).await?;
    Ok(())
}

/// The outcome of a write, with what is wrong in words.
async fn in_time(write: impl Future<Output = Result<(), Refused>>) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Refused::Failed(error))) => Err(reason(&error)),
        Ok(Err(Refused::Contended)) => Err("somebody else writes it at the same time".to_owned()),
        Err(_) => Err(format!("the API server did not answer within {} s", PATIENCE.as_secs())),
    }
}

/// Writes what is newest whenever it is due, until `shutdown` or until nobody has anything to say any more.
pub async fn run(
    mut writer: Writer,
    mut newest: watch::Receiver<Option<Arc<Desired>>>,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let desired = newest.borrow_and_update().clone();
        let wake = match &desired {
            None => None,
            Some(desired) => tokio::select! {
                () = &mut shutdown => return,
                wake = writer.step(desired) => Some(wake),
            },
        };
        let sleep = async {
            match wake {
                Some(wake) => tokio::time::sleep_until(wake).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut shutdown => return,
            changed = newest.changed() => if changed.is_err() { return },
            () = sleep => {}
        }
    }
}
