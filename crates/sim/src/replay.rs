//! Fills a cluster with a trace: pods arrive one by one, never leave; one that does not fit is dropped. The
//! protocol of the FGD study.

use std::time::{Duration, Instant};

use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::model::Timestamp;

use crate::driver::Driver;
use crate::gauge::Gauge;
use crate::openb::{Arrivals, TraceNode, TracePod, capacity_milli};
use crate::report::{Decisions, Run};

/// One policy on one order of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The nodes, sorted by name.
    pub nodes: &'a [TraceNode],
    /// The pods.
    pub pods: &'a [TracePod],
    /// Who arrives when.
    pub arrivals: &'a Arrivals,
    /// The policy.
    pub policy: Policy,
    /// For the report.
    pub seed: Option<u64>,
}

impl Replay<'_> {
    /// Runs it; `progress` is told how many pods have arrived.
    pub fn run(&self, mut progress: impl FnMut(usize)) -> Run {
        let mix = self.pods.iter().map(TracePod::declared).collect();
        let mut driver = Driver::new(self.policy, self.seed, Some(mix));
        for node in &self.arrivals.nodes {
            driver.add_node(self.nodes[*node].to_node());
        }
        let mut gauge = Gauge::default();
        let mut run = Run::new("openb", self.policy.name(), self.seed, capacity_milli(self.nodes));
        let mut times: Vec<Duration> = Vec::with_capacity(self.arrivals.pods.len());
        for (n, row) in self.arrivals.pods.iter().enumerate() {
            let trace_pod = &self.pods[*row];
            let now = Timestamp(n as u64);
            let mut pod = trace_pod.to_pod(&Driver::uid(n), driver.scheduler());
            pod.created_at = now;
            let started = Instant::now();
            let placed = offer(&mut driver, now, n, pod);
            times.push(started.elapsed());
            gauge.update(driver.state());
            run.arrival(trace_pod.gpu_milli(), placed, gauge.held(), gauge.fragment(driver.state()));
            progress(n + 1);
        }
        run.finish(Decisions::of(times));
        run
    }
}

/// A pod arrives that does not wait; returns whether it was placed.
pub(crate) fn offer(driver: &mut Driver, now: Timestamp, number: usize, pod: gpu_scheduler_engine::model::Pod) -> bool {
    let mut placed = false;
    driver.arrive(now, pod);
    driver.settle(now, |_| placed = true);
    if !placed {
        driver.leave(now, number);
    }
    placed
}
