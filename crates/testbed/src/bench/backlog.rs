//! A backlog that is worked off: pods first, then the clock and the contender.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::contender::{Running, Who};
use super::watch::Watch;
use super::{Bed, Workload, bare, millis, sweep};
use crate::control_plane::ControlPlaneError;

/// What came of a backlog.
#[derive(Debug, Clone)]
pub struct Backlog {
    /// Who bound it.
    pub who: Who,
    /// What the pods asked for.
    pub workload: Workload,
    /// Pods.
    pub pods: usize,
    /// From the contender's start until the watch had shown the last pod bound.
    pub took: Duration,
    /// From the same moment until all events were there; the bare loop writes none.
    pub told: Option<Duration>,
    /// Events that were there at the end.
    pub events: usize,
    /// The contender's own processor time; of the bare loop it is not told apart from the harness.
    pub cpu: Option<Duration>,
    /// Its resident memory at its most, MiB.
    pub mib: Option<u64>,
}

impl Backlog {
    /// Pods a second.
    pub fn rate(&self) -> f64 {
        self.pods as f64 / self.took.as_secs_f64()
    }

    /// Pods a second with the events that trail.
    pub fn rate_told(&self) -> Option<f64> {
        Some(self.pods as f64 / self.told?.as_secs_f64())
    }

    /// Processor time a pod, milliseconds.
    pub fn cpu_ms(&self) -> Option<f64> {
        Some(millis(self.cpu?) / self.pods as f64)
    }
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} pods/s", self.rate())?;
        if let Some(rate) = self.rate_told() {
            write!(f, ", {rate:.0} with their {} events", self.events)?;
        }
        if let (Some(cpu), Some(mib)) = (self.cpu_ms(), self.mib) {
            write!(f, ", {cpu:.2} ms of CPU a pod, {mib} MiB")?;
        }
        Ok(())
    }
}

/// Of several runs the one in the middle by its time.
pub(super) fn middle(mut runs: Vec<Backlog>) -> Option<Backlog> {
    runs.sort_by_key(|run| run.took);
    let at = runs.len() / 2;
    runs.into_iter().nth(at)
}

pub(super) async fn measure(
    bed: &mut Bed<'_>,
    who: Who,
    workload: Workload,
    pods: usize,
) -> Result<Backlog, ControlPlaneError> {
    let client = bed.cluster.client();
    bed.cluster.add_pods((0..pods).map(|n| who.pod(&format!("p{n}"), workload).build())).await?;
    let watch = Watch::start(client.clone());
    watch.seen(pods).await?;
    let begun = Instant::now();
    let running = Running::start(bed, who).await?;
    if running.is_none() {
        bare::bind(&bed.access, pods, bed.settings.nodes).await?;
    }
    watch.bound(pods).await?;
    let took = begun.elapsed();
    let mut measured = Backlog { who, workload, pods, took, told: None, events: 0, cpu: None, mib: None };
    if let Some(running) = running {
        measured.events = sweep::events(&client, pods).await?;
        measured.told = (measured.events >= pods).then(|| begun.elapsed());
        let used = running.used(&bed.cluster);
        (measured.cpu, measured.mib) = (Some(used.cpu), Some(used.mib));
        running.stop(&mut bed.cluster);
    }
    drop(watch);
    sweep::sweep(&client).await?;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_in_the_middle_counts_whole() {
        let run = |seconds: u64, events| Backlog {
            who: Who::Ours,
            workload: Workload::Whole,
            pods: 100,
            took: Duration::from_secs(seconds),
            told: None,
            events,
            cpu: None,
            mib: None,
        };
        for (runs, expected) in [(vec![(9, 1), (5, 2), (7, 3)], Some(3)), (vec![(4, 1)], Some(1)), (Vec::new(), None)] {
            let runs = runs.into_iter().map(|(seconds, events)| run(seconds, events)).collect();
            assert_eq!(middle(runs).map(|run| run.events), expected);
        }
    }
}
