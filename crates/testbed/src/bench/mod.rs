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

use crate::control_plane::{ControlPlane, ControlPlaneError, Options};
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

/// Measures everything, and says on standard error how far it is.
///
/// # Errors
///
/// The bed cannot be had, or a contender does not bind all pods.
pub async fn run(settings: &Settings) -> Result<Report, ControlPlaneError> {
    let mut cluster = ControlPlane::start(Options::load_test()).await?;
    let access = deploy::install(&cluster).await?;
    let kubeconfig = cluster.folder().join("bench.kubeconfig");
    access.write_kubeconfig(&kubeconfig)?;
    cluster.add_nodes((0..settings.nodes).map(|n| NodeObject::new(&format!("node-{n}")).ready().build())).await?;
    let whole = settings.pods.min(settings.nodes * 8);
    let mut report = Report::new(settings);
    for (who, workload, pods) in [
        (Who::KubeScheduler, Workload::Whole, whole),
        (Who::Ours, Workload::Whole, whole),
        (Who::Ours, Workload::Shares, whole),
        (Who::BareLoop, Workload::Whole, whole),
    ] {
        if !settings.contenders.contains(&who) {
            continue;
        }
        eprintln!("{} nodes: {who} binds a backlog of {pods} pods, {}", settings.nodes, workload.as_str());
        let measured = backlog::measure(&mut cluster, settings, &kubeconfig, who, workload, pods).await?;
        eprintln!("    {measured}");
        report.backlogs.push(measured);
    }
    let rates = if settings.seconds > 0 { settings.rates.as_slice() } else { &[] };
    for &rate in rates {
        for (who, workload) in
            [(Who::KubeScheduler, Workload::Whole), (Who::Ours, Workload::Whole), (Who::Ours, Workload::Shares)]
        {
            if !settings.contenders.contains(&who) {
                continue;
            }
            eprintln!("{} nodes: {rate} pods a second for {who}, {}", settings.nodes, workload.as_str());
            let measured = steady::measure(&mut cluster, settings, &kubeconfig, who, workload, rate).await?;
            eprintln!("    {measured}");
            report.steady.push(measured);
        }
    }
    if settings.many > 0 && settings.contenders.contains(&Who::Ours) {
        eprintln!("{} nodes: {} binds a backlog of {} pods, shares", settings.nodes, Who::Ours, settings.many);
        let (who, workload) = (Who::Ours, Workload::Shares);
        let measured = backlog::measure(&mut cluster, settings, &kubeconfig, who, workload, settings.many).await?;
        eprintln!("    {measured}");
        report.backlogs.push(measured);
    }
    cluster.stop();
    Ok(report)
}
