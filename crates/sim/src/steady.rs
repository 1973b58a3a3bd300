//! A steady state: pods arrive at random, stay for a random time and end; one that does not fit when it arrives
//! is dropped. Arrivals are Poisson, stays exponential, shapes drawn evenly from a list of pods; the stream of a
//! seed is the same for every policy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::model::{Demand, Timestamp};

use crate::driver::Driver;
use crate::gauge::Gauge;
use crate::openb::{TraceNode, TracePod, capacity_milli};
use crate::permille::Permille;
use crate::random::SplitMix;
use crate::replay::offer;
use crate::report::{Arrived, Capacity, Decisions, Refused, SteadyPoint, SteadyRun, percent};
use crate::time_bins::TimeBins;

/// Points of the curve in a mean stay.
const POINTS: usize = 4;
/// Nanoseconds of a second, the unit of time in here.
const SECOND: u64 = 1_000_000_000;

/// One policy under one stream.
#[derive(Debug, Clone, Copy)]
pub struct Steady<'a> {
    /// The nodes, sorted by name.
    pub nodes: &'a [TraceNode],
    /// The shapes to draw from.
    pub pods: &'a [TracePod],
    /// Their name, for the report.
    pub mix: &'static str,
    /// The policy.
    pub policy: Policy,
    /// Of the stream.
    pub seed: u64,
    /// The stream.
    pub stream: Stream,
}

/// How pods come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Offered demand as a part of the cluster.
    pub load: Permille,
    /// Mean stay in seconds.
    pub stay: u64,
    /// Mean stays before measuring.
    pub warm_up: u64,
    /// Mean stays of measuring.
    pub measure: u64,
}

/// What runs and what was refused.
struct Course {
    bins: TimeBins<3>,
    demand: Vec<Offered>,
    by_size: BTreeMap<&'static str, Offered>,
    /// Allocated, held, fragmented.
    now: [u64; 3],
}

/// Arrived and refused.
#[derive(Debug, Clone, Copy, Default)]
struct Offered {
    pods: u64,
    milli: u64,
    refused_pods: u64,
    refused_milli: u64,
}

impl Steady<'_> {
    /// Parts that `progress` counts to.
    pub const PARTS: usize = 1000;

    /// Runs it; `progress` is told how many thousandths of the time have passed.
    pub fn run(&self, mut progress: impl FnMut(usize)) -> SteadyRun {
        let mut driver =
            Driver::new(self.policy, Some(self.seed), Some(self.pods.iter().map(TracePod::declared).collect()));
        for node in self.nodes {
            driver.add_node(node.to_node());
        }
        let stay = self.stream.stay * SECOND;
        let stays = self.stream.warm_up + self.stream.measure;
        let horizon = stay.saturating_mul(stays);
        let gap = self.mean_gap();
        let mut random = SplitMix(self.seed);
        let mut gauge = Gauge::default();
        let mut course = Course::new(stay, usize::try_from(stays).unwrap_or(usize::MAX));
        let mut endings: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
        let mut times: Vec<Duration> = Vec::new();
        let mut next = random.exponential(gap);
        let mut number = 0;
        loop {
            let ending = endings.peek().map(|Reverse((time, ..))| *time).filter(|time| *time <= next);
            let now = ending.unwrap_or(next);
            if now >= horizon {
                break;
            }
            course.bins.advance(now, course.now);
            let clock = Timestamp(now / 1_000_000);
            if ending.is_some() {
                let Some(Reverse((_, pod, milli))) = endings.pop() else { break };
                let started = Instant::now();
                driver.leave(clock, pod);
                driver.settle(clock, |_| {});
                times.push(started.elapsed());
                course.now[0] -= milli;
            } else {
                let shape = &self.pods[random.below(self.pods.len())];
                let until = now.saturating_add(random.exponential(stay));
                next = now.saturating_add(random.exponential(gap));
                let mut pod = shape.to_pod(&Driver::uid(number), driver.scheduler());
                pod.created_at = clock;
                let started = Instant::now();
                let placed = offer(&mut driver, clock, number, pod);
                times.push(started.elapsed());
                if placed {
                    course.now[0] += shape.gpu_milli();
                    endings.push(Reverse((until, number, shape.gpu_milli())));
                }
                course.arrival(now, self.stream.warm_up, shape, placed);
                number += 1;
            }
            gauge.update(driver.state());
            course.now[1] = gauge.held();
            course.now[2] = gauge.fragment(driver.state());
            progress((u128::from(now) * Self::PARTS as u128 / u128::from(horizon)) as usize);
        }
        course.bins.advance(horizon, course.now);
        let decisions = Decisions::counted(driver.decisions(), times);
        end_all(&mut driver, endings.into_iter().map(|Reverse((_, pod, _))| pod), Timestamp(horizon / 1_000_000));
        gauge.update(driver.state());
        self.report(&course, decisions, gauge.held())
    }

    /// Mean time between arrivals: stay × mean demand / (load × capacity).
    fn mean_gap(&self) -> u64 {
        let demand: u128 = self.pods.iter().map(|p| u128::from(p.gpu_milli())).sum();
        let offered = u128::from(capacity_milli(self.nodes)) * u128::from(self.stream.load.0);
        let stay = u128::from(self.stream.stay) * u128::from(SECOND) * 1000;
        let gap = stay * demand / (offered * self.pods.len() as u128).max(1);
        u64::try_from(gap).unwrap_or(u64::MAX).max(1)
    }

    fn report(&self, course: &Course, decisions: Decisions, left_over: u64) -> SteadyRun {
        let capacity = capacity_milli(self.nodes);
        let from = POINTS * usize::try_from(self.stream.warm_up).unwrap_or(0);
        let pct = |milli: f64| percent(milli, capacity as f64);
        let [allocated, held, fragmented] = course.bins.means(from, course.bins.len()).map(pct);
        let total = course.demand[from..].iter().fold(Offered::default(), |a, b| a.and(*b));
        let point = |bin: usize| {
            let [allocated_pct, held_pct, fragmented_pct] = course.bins.means(bin, bin + 1).map(pct);
            let refused_pct = course.demand[bin].refused().demand_pct;
            let stays = (bin + 1) as f64 / POINTS as f64;
            SteadyPoint { stays, allocated_pct, held_pct, fragmented_pct, refused_pct }
        };
        SteadyRun {
            trace: "openb".to_owned(),
            protocol: "steady",
            mix: self.mix,
            policy: self.policy.name().to_owned(),
            seed: self.seed,
            load: self.stream.load.factor(),
            stay_seconds: self.stream.stay,
            warm_up_stays: self.stream.warm_up,
            measured_stays: self.stream.measure,
            arrived: Arrived { pods: total.pods, gpu_milli: total.milli },
            capacity: Capacity { gpu_milli: capacity },
            refused: total.refused(),
            refused_by_size: course.by_size.iter().map(|(size, offered)| (*size, offered.refused())).collect(),
            allocated_pct: allocated,
            held_pct: held,
            fragmented_pct: fragmented,
            curve: (0..course.bins.len()).map(point).collect(),
            decisions,
            left_over_milli: left_over,
        }
    }
}

impl Course {
    fn new(stay: u64, stays: usize) -> Self {
        let bins = POINTS.saturating_mul(stays);
        Self {
            bins: TimeBins::new(stay / POINTS as u64, bins),
            demand: vec![Offered::default(); bins],
            by_size: BTreeMap::new(),
            now: [0; 3],
        }
    }

    fn arrival(&mut self, now: u64, warm_up: u64, shape: &TracePod, placed: bool) {
        let (milli, bin) = (shape.gpu_milli(), self.bins.bin(now));
        let lost = u64::from(!placed);
        let one = Offered { pods: 1, milli, refused_pods: lost, refused_milli: lost * milli };
        if let Some(offered) = self.demand.get_mut(bin) {
            *offered = offered.and(one);
        }
        if bin as u64 >= warm_up * POINTS as u64 {
            let offered = self.by_size.entry(size(shape)).or_default();
            *offered = offered.and(one);
        }
    }
}

impl Offered {
    fn and(self, other: Self) -> Self {
        Self {
            pods: self.pods + other.pods,
            milli: self.milli + other.milli,
            refused_pods: self.refused_pods + other.refused_pods,
            refused_milli: self.refused_milli + other.refused_milli,
        }
    }

    fn refused(self) -> Refused {
        Refused {
            pods: self.refused_pods,
            gpu_milli: self.refused_milli,
            pods_pct: percent(self.refused_pods as f64, self.pods as f64),
            demand_pct: percent(self.refused_milli as f64, self.milli as f64),
        }
    }
}

/// What still runs ends.
fn end_all(driver: &mut Driver, pods: impl Iterator<Item = usize>, now: Timestamp) {
    for pod in pods {
        driver.leave(now, pod);
    }
    driver.settle(now, |_| {});
}

/// The size by which refusals are reported.
fn size(shape: &TracePod) -> &'static str {
    match shape.demand {
        Some(Demand::Cards { count }) => crate::philly::size_class(count),
        Some(_) => "share",
        None => "none",
    }
}
