//! Jobs arrive, wait in the engine's queue, run and end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::model::{
    CardSpec, Container, ContainerKind, Demand, Mib, Node, Pod, Quantity, ResourceList, Timestamp,
};

use super::{ClusterShape, Job, SIZES, size_class};
use crate::driver::Driver;
use crate::gauge::Gauge;
use crate::permille::Permille;
use crate::report::{Capacity, ClusterSize, Decisions, JobCounts, QueuePoint, QueueRun, Waiting, percent, round};
use crate::time_bins::TimeBins;

/// Points of the curve.
const POINTS: usize = 100;
/// Milli-cores and MiB that a node has for each card. The trace has no figures; cards decide.
const PER_CARD_THERE: (i64, i64) = (12_000, 128 << 10);
/// Milli-cores and MiB that a job asks for with each card.
const PER_CARD_ASKED: (i64, i64) = (10_000, 96 << 10);

/// One policy on one stream of jobs.
#[derive(Debug, Clone, Copy)]
pub struct Queueing<'a> {
    /// The jobs in order of arrival.
    pub jobs: &'a [Job],
    /// The cluster.
    pub cluster: ClusterShape,
    /// Offered demand as a part of the cluster: arrival times are stretched until it is that.
    pub load: Permille,
    /// The policy.
    pub policy: Policy,
}

/// A job's course. Until gangs exist its pods start one by one.
struct Course {
    first_pod: usize,
    pods: u32,
    cards: u32,
    arrival: u64,
    duration: u64,
    /// Pods that have not started.
    missing: u32,
    /// Cards of those that have.
    held: u32,
    started: Option<u64>,
}

/// All of them.
struct Courses {
    jobs: Vec<Course>,
    /// By pod: its job and its cards.
    pods: Vec<(usize, u32)>,
    endings: BinaryHeap<Reverse<(u64, usize)>>,
    bins: TimeBins<3>,
    to_end: TimeBins<1>,
    /// Cards held, of them by jobs that wait for more, cards waited for.
    now: [u64; 3],
    end: u64,
}

impl Queueing<'_> {
    /// Runs it; `progress` is told how many jobs have ended.
    pub fn run(&self, mut progress: impl FnMut(usize)) -> QueueRun {
        let (jobs, span) = self.scaled();
        let too_large = self.jobs.len() - jobs.len();
        let mut driver = Driver::new(self.policy, None, None);
        for n in 0..self.cluster.nodes {
            driver.add_node(node(n, self.cluster.cards));
        }
        let mut courses = Courses::new(jobs, span, self.cluster.cards);
        let mut times: Vec<Duration> = Vec::new();
        let (mut next, mut ended) = (0, 0);
        loop {
            let arrival = courses.jobs.get(next).map(|job| job.arrival);
            let ending = courses.endings.peek().map(|Reverse((time, _))| *time);
            let Some(now) = [arrival, ending].into_iter().flatten().min() else { break };
            courses.advance(now);
            let clock = Timestamp(now);
            // At the same time endings come first: they make room.
            let (ends, job) = match courses.endings.peek() {
                Some(Reverse((time, ending))) if *time == now => (true, *ending),
                _ => (false, next),
            };
            let pods = courses.pods_to_make(job, driver.scheduler(), !ends);
            let started = Instant::now();
            if ends {
                courses.endings.pop();
                courses.finish(job, |pod| driver.leave(clock, pod));
                ended += 1;
            } else {
                courses.arrive(job);
                for pod in pods {
                    driver.arrive(clock, pod);
                }
                next += 1;
            }
            driver.settle(clock, |pod| courses.start(now, pod));
            times.push(started.elapsed());
            progress(ended);
        }
        let decisions = Decisions::counted(driver.decisions(), times);
        let left_over = courses.clear(&mut driver);
        self.report(&courses, decisions, JobTally { too_large, ended, left_over, span })
    }

    /// Jobs that fit the cluster, with times in milliseconds stretched to the load; and the time of arrivals.
    fn scaled(&self) -> (Vec<Course>, u64) {
        let jobs: Vec<&Job> = self.jobs.iter().filter(|j| u64::from(j.cards) <= self.cluster.total()).collect();
        let work: u128 = jobs.iter().map(|j| u128::from(j.duration) * u128::from(j.cards)).sum();
        let first = jobs.first().map_or(0, |j| j.arrival);
        let original = u128::from(jobs.last().map_or(0, |j| j.arrival) - first);
        let wanted = work * 1000 / (u128::from(self.load.0) * u128::from(self.cluster.total()));
        let stretch = |arrival: u64| match original {
            0 => 0,
            _ => u64::try_from(u128::from(arrival - first) * wanted / original).unwrap_or(u64::MAX),
        };
        let course = |job: &&Job| Course {
            first_pod: 0,
            pods: 0,
            cards: job.cards,
            arrival: stretch(job.arrival),
            duration: job.duration,
            missing: 0,
            held: 0,
            started: None,
        };
        let courses: Vec<Course> = jobs.iter().map(course).collect();
        let span = courses.last().map_or(0, |c| c.arrival);
        (courses, span)
    }

    fn report(&self, courses: &Courses, decisions: Decisions, tally: JobTally) -> QueueRun {
        let cards = self.cluster.total() as f64;
        let [held, held_waiting, _] = courses.bins.means(0, POINTS);
        let mut waits: BTreeMap<&str, Vec<u64>> = SIZES.map(|size| (size, Vec::new())).into();
        for job in &courses.jobs {
            if let Some(started) = job.started {
                waits.entry(size_class(job.cards)).or_default().push(started - job.arrival);
            }
        }
        let point = |bin: usize| {
            let [held, _, waiting] = courses.bins.means(bin, bin + 1);
            let time_pct = 100.0 * (bin + 1) as f64 / POINTS as f64;
            QueuePoint { time_pct, utilisation_pct: percent(held, cards), waiting_pct: percent(waiting, cards) }
        };
        let arrived = courses.jobs.len() as u64;
        let to_end = courses.to_end.means(0, 1)[0] * courses.to_end.end(0) as f64 / courses.end.max(1) as f64;
        QueueRun {
            trace: "philly".to_owned(),
            protocol: "queue",
            policy: self.policy.name().to_owned(),
            seed: None,
            cluster: ClusterSize { nodes: self.cluster.nodes, cards_per_node: self.cluster.cards },
            load: self.load.factor(),
            capacity: Capacity { gpu_milli: 1000 * self.cluster.total() },
            jobs: JobCounts {
                arrived,
                finished: tally.ended as u64,
                stuck: arrived - tally.ended as u64,
                too_large: tally.too_large as u64,
            },
            utilisation_pct: percent(held, cards),
            utilisation_to_end_pct: percent(to_end, cards),
            held_waiting_pct: percent(held_waiting, held),
            arrival_span_seconds: round(tally.span as f64 / 1000.0),
            makespan_seconds: round(courses.end as f64 / 1000.0),
            waiting: Waiting::of(waits.values().flatten().copied().collect()),
            waiting_by_size: waits.into_iter().map(|(size, waits)| (size, Waiting::of(waits))).collect(),
            curve: (0..POINTS).map(point).collect(),
            decisions,
            left_over_milli: tally.left_over,
        }
    }
}

/// What the loop counted.
struct JobTally {
    too_large: usize,
    ended: usize,
    left_over: u64,
    span: u64,
}

impl Courses {
    fn new(mut jobs: Vec<Course>, span: u64, cards_per_node: u32) -> Self {
        let mut pods = Vec::new();
        for (n, job) in jobs.iter_mut().enumerate() {
            job.first_pod = pods.len();
            job.pods = job.cards.div_ceil(cards_per_node);
            job.missing = job.pods;
            let mut left = job.cards;
            while left > 0 {
                pods.push((n, left.min(cards_per_node)));
                left -= left.min(cards_per_node);
            }
        }
        let bins = TimeBins::new((span / POINTS as u64).max(1), POINTS);
        // One bin that takes any time, half the range so that its end does not overflow.
        let to_end = TimeBins::new(u64::MAX / 2, 1);
        Self { jobs, pods, endings: BinaryHeap::new(), bins, to_end, now: [0; 3], end: 0 }
    }

    fn advance(&mut self, now: u64) {
        self.bins.advance(now, self.now);
        self.to_end.advance(now, [self.now[0]]);
        self.end = now;
    }

    fn pods_of(&self, job: usize) -> std::ops::Range<usize> {
        let job = &self.jobs[job];
        job.first_pod..job.first_pod + job.pods as usize
    }

    /// The pods of a job that arrives.
    fn pods_to_make(&self, job: usize, scheduler: &str, arrives: bool) -> Vec<Pod> {
        let range = if arrives { self.pods_of(job) } else { 0..0 };
        range.map(|n| pod(n, self.pods[n].1, Timestamp(self.jobs[job].arrival), scheduler)).collect()
    }

    fn arrive(&mut self, job: usize) {
        self.now[2] += u64::from(self.jobs[job].cards);
    }

    /// A pod runs; with the last one of its job the job's time begins.
    fn start(&mut self, now: u64, pod: usize) {
        let (number, cards) = self.pods[pod];
        let job = &mut self.jobs[number];
        self.now[2] -= u64::from(cards);
        self.now[0] += u64::from(cards);
        self.now[1] += u64::from(cards);
        job.held += cards;
        job.missing -= 1;
        if job.missing == 0 {
            self.now[1] -= u64::from(job.cards);
            job.started = Some(now);
            self.endings.push(Reverse((now + job.duration, number)));
        }
    }

    fn finish(&mut self, job: usize, leave: impl FnMut(usize)) {
        self.pods_of(job).for_each(leave);
        self.now[0] -= u64::from(self.jobs[job].held);
    }

    /// Jobs that wait for ever give up. Returns what is held after that.
    fn clear(&self, driver: &mut Driver) -> u64 {
        let end = Timestamp(self.end);
        for (number, job) in self.jobs.iter().enumerate() {
            if job.started.is_none() {
                self.pods_of(number).for_each(|pod| driver.leave(end, pod));
            }
        }
        driver.settle(end, |_| {});
        let mut gauge = Gauge::default();
        gauge.update(driver.state());
        gauge.held()
    }
}

fn resources(cards: u32, per_card: (i64, i64)) -> ResourceList {
    let cards = i64::from(cards);
    [
        ("cpu", Quantity::millis(cards * per_card.0)),
        ("memory", Quantity::units((cards * per_card.1) << 20)),
        ("nvidia.com/gpu", Quantity::units(cards)),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into()
}

fn node(number: u32, cards: u32) -> Node {
    let mut node = Node { name: format!("node-{number:05}"), ..Node::default() };
    node.allocatable = resources(cards, PER_CARD_THERE);
    node.allocatable.insert("pods".into(), Quantity::units(i64::from(u32::MAX)));
    let card = |index| {
        let uuid = CardSpec::made_up_uuid(&node.name, index);
        CardSpec::new(uuid, index, "GPU", Some(Mib(24 << 10)))
    };
    node.cards = (0..cards).map(card).collect();
    node
}

fn pod(number: usize, cards: u32, created_at: Timestamp, scheduler: &str) -> Pod {
    let uid = Driver::uid(number);
    let mut pod = Pod::new(&uid, "philly", &uid);
    pod.scheduler = scheduler.to_owned();
    pod.created_at = created_at;
    let mut container = Container::new("main", ContainerKind::App, resources(cards, PER_CARD_ASKED));
    container.gpu.push(Demand::Cards { count: cards });
    pod.containers.push(container);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(jobs: &[(u64, u64, u32)], cluster: &str, load: &str) -> QueueRun {
        let jobs: Vec<Job> = jobs
            .iter()
            .map(|(arrival, seconds, cards)| Job { arrival: *arrival, duration: 1000 * seconds, cards: *cards })
            .collect();
        let queueing = Queueing {
            jobs: &jobs,
            cluster: cluster.parse().unwrap(),
            load: load.parse().unwrap(),
            policy: Policy::BestFit,
        };
        let run = queueing.run(|_| {});
        assert_eq!(run.left_over_milli, 0, "departures free everything");
        run
    }

    #[test]
    fn a_job_waits_until_cards_are_free() {
        // 20 card-seconds at load 1 on 2 cards: arrivals are stretched over 10 s.
        let run = run(&[(0, 8, 2), (5, 2, 1), (10, 2, 1)], "1x2", "1");
        assert_eq!((run.arrival_span_seconds, run.makespan_seconds), (10.0, 12.0));
        assert_eq!((run.jobs.arrived, run.jobs.finished, run.jobs.stuck), (3, 3, 0));
        assert_eq!((run.waiting.max_seconds, run.waiting_by_size["2-4"].max_seconds), (3.0, 0.0));
        assert_eq!(run.utilisation_pct, 90.0);
        assert_eq!(run.utilisation_to_end_pct, percent(20.0, 24.0));
    }

    #[test]
    fn a_job_larger_than_a_node_starts_with_its_last_pod() {
        // Three nodes of 2: the first job holds a node for 6 s, the second one needs all three.
        let run = run(&[(0, 6, 2), (3, 4, 6), (9, 0, 1)], "3x2", "0.5");
        assert_eq!(run.waiting_by_size["5-8"].max_seconds, 6.0 - 36.0 * 1000.0 / 3000.0 / 3.0);
        assert_eq!(run.jobs.finished, 3);
        assert!(run.held_waiting_pct > 0.0);
        assert_eq!(run.jobs.too_large, 0);
    }

    #[test]
    fn jobs_beyond_the_cluster_are_left_out_and_deadlocks_are_reported() {
        let run = run(&[(0, 5, 1), (0, 5, 4), (1, 5, 3), (2, 9, 5)], "2x2", "1");
        assert_eq!((run.jobs.arrived, run.jobs.too_large), (3, 1));
        assert_eq!(run.jobs.stuck + run.jobs.finished, 3);
    }
}
