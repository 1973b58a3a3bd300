//! How fast a live scheduler is, beside Kubernetes' own and beside what the API server allows, on one bed in one run.
//!
//! All contenders bind the same pods to the same simulated nodes through the same API server, one after the other: nodes stay as
//! they are created, and nobody renews a lease. Everything is gone before the next one begins. First a backlog is worked off:
//! pods are there before the contender is, and the clock starts with it. Then pods arrive at a steady rate.
//!
//! What is measured is the machine as much as the schedulers, so ratios of one run are what counts.

mod backlog;
mod bare;
mod contender;
mod machine;
mod report;
mod steady;
mod sweep;
mod targets;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use crate::control_plane::{Access, ControlPlane, ControlPlaneError, Options};
use crate::deploy;
use crate::objects::NodeObject;

pub use backlog::Backlog;
pub use contender::Who;
pub use report::Report;
pub use steady::Steady;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Our program.
    pub scheduler: PathBuf,
    /// Who is measured.
    pub contenders: Vec<Who>,
    /// Nodes, of eight cards each.
    pub nodes: usize,
    /// Pods of a backlog; whole cards: no more than there are.
    pub pods: usize,
    /// How often all but kube-scheduler work it off; the run in the middle counts.
    pub rounds: u32,
    /// Pods a second that arrive.
    pub rates: Vec<u32>,
    /// Seconds for which they do; 0: none arrive.
    pub seconds: u32,
    /// Pods of one more backlog, of shares, by which memory is judged; 0: none.
    pub many: usize,
}

/// What the pods ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// One card each.
    Whole,
    /// A share of a card each, eight to a card.
    Shares,
}

impl Workload {
    fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole cards",
            Self::Shares => "shares",
        }
    }
}

/// Where everything is measured.
struct Bed<'a> {
    cluster: ControlPlane,
    settings: &'a Settings,
    /// What our program may do there, and the file by which it knows.
    access: Access,
    kubeconfig: PathBuf,
}

/// Milliseconds.
fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Measures everything, and says on standard error how far it is.
///
/// # Errors
///
/// The bed cannot be had, or a contender does not bind all pods.
pub async fn run(settings: &Settings) -> Result<Report, ControlPlaneError> {
    let cluster = ControlPlane::start(Options::load_test()).await?;
    let access = deploy::install(&cluster).await?;
    let kubeconfig = cluster.folder().join("bench.kubeconfig");
    access.write_kubeconfig(&kubeconfig)?;
    cluster.add_nodes((0..settings.nodes).map(|n| NodeObject::new(&format!("node-{n}")).ready().build())).await?;
    let mut bed = Bed { cluster, settings, access, kubeconfig };
    let whole = settings.pods.min(settings.nodes * 8);
    let mut report = Report::new(settings);
    report.backlogs.extend(bed.backlog(Who::KubeScheduler, Workload::Whole, whole).await?);
    // In turn, so that what the machine does meanwhile meets all of them.
    let quick = [(Who::Ours, Workload::Whole), (Who::Ours, Workload::Shares), (Who::BareLoop, Workload::Whole)];
    let mut rounds: [Vec<Backlog>; 3] = Default::default();
    for _ in 0..settings.rounds {
        for ((who, workload), rounds) in quick.into_iter().zip(&mut rounds) {
            rounds.extend(bed.backlog(who, workload, whole).await?);
        }
    }
    report.backlogs.extend(rounds.into_iter().filter_map(backlog::middle));
    let rates = if settings.seconds > 0 { settings.rates.as_slice() } else { &[] };
    for &rate in rates {
        for (who, workload) in
            [(Who::KubeScheduler, Workload::Whole), (Who::Ours, Workload::Whole), (Who::Ours, Workload::Shares)]
        {
            report.steady.extend(bed.steady(who, workload, rate).await?);
        }
    }
    if settings.many > 0 {
        report.backlogs.extend(bed.backlog(Who::Ours, Workload::Shares, settings.many).await?);
    }
    bed.cluster.stop();
    Ok(report)
}

impl Bed<'_> {
    /// Nothing of whom is not to be measured.
    async fn backlog(
        &mut self,
        who: Who,
        workload: Workload,
        pods: usize,
    ) -> Result<Option<Backlog>, ControlPlaneError> {
        if !self.settings.contenders.contains(&who) {
            return Ok(None);
        }
        eprintln!("{} nodes: {who} binds a backlog of {pods} pods, {}", self.settings.nodes, workload.as_str());
        let measured = backlog::measure(self, who, workload, pods).await?;
        eprintln!("    {measured}");
        Ok(Some(measured))
    }

    /// Nothing of whom is not to be measured.
    async fn steady(&mut self, who: Who, workload: Workload, rate: u32) -> Result<Option<Steady>, ControlPlaneError> {
        if !self.settings.contenders.contains(&who) {
            return Ok(None);
        }
        eprintln!("{} nodes: {rate} pods a second for {who}, {}", self.settings.nodes, workload.as_str());
        let measured = steady::measure(self, who, workload, rate).await?;
        eprintln!("    {measured}");
        Ok(Some(measured))
    }
}
