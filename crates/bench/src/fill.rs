//! Fills one cluster.

use std::time::{Duration, Instant};

use gpu_scheduler_engine::model::{CardSpec, Mib, Node, PodUid, Quantity, Timestamp};
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome as Ended, Policy, Step};
use gpu_scheduler_sim::openb::TracePod;
use gpu_scheduler_sim::random::SplitMix;

use crate::allocator::allocated;

const CARDS: u32 = 8;
const SCHEDULER: &str = "gpu-scheduler";

/// One cluster to fill.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    pub nodes: usize,
    pub policy: Policy,
    pub percent: u64,
    pub pods: &'a [TracePod],
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub nodes: usize,
    pub pods: usize,
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
    pub worst_poll_us: f64,
    /// Median over the last tenth, when the cluster is nearly full.
    pub late_p50_us: f64,
    pub bytes_per_pod: usize,
    pub bytes_per_node: usize,
}

/// An engine, and times of what it was asked.
struct Bed {
    engine: Engine,
    now: u64,
    random: SplitMix,
    worst_poll: Duration,
}

impl Fill<'_> {
    fn bed(&self, reuse: bool) -> Bed {
        let mut config = Config::with_policy(self.policy);
        config.retry_after = None;
        config.reuse_evaluations = reuse;
        let mut engine = Engine::new(config);
        for n in 0..self.nodes {
            engine.handle(Timestamp(0), Event::NodeApplied(Box::new(node(n))));
        }
        Bed { engine, now: 0, random: SplitMix(42), worst_poll: Duration::ZERO }
    }

    /// Pods arrive one by one until enough is allocated.
    pub fn run(&self) -> Outcome {
        let before = allocated();
        let mut bed = self.bed(true);
        let bytes_per_node = (allocated() - before) / self.nodes;
        let capacity = self.nodes as u64 * u64::from(CARDS) * 1000;
        let (mut given, mut times) = (0_u64, Vec::new());
        let before = allocated();
        while given * 100 < capacity * self.percent && times.len() < self.nodes * 40 {
            let pod = &self.pods[bed.random.below(self.pods.len())];
            let (took, placed) = bed.submit(pod);
            times.push(took);
            if placed {
                given += pod.gpu_milli();
            }
        }
        let bytes_per_pod = (allocated() - before - times.capacity() * size_of::<Duration>()) / times.len().max(1);
        let late = times[times.len() * 9 / 10..].to_vec();
        let total: Duration = times.iter().sum();
        let pods = times.len();
        times.sort_unstable();
        Outcome {
            nodes: self.nodes,
            pods,
            per_second: pods as f64 / total.as_secs_f64(),
            p50_us: at(&times, 500),
            p99_us: at(&times, 990),
            worst_us: at(&times, 1000),
            worst_poll_us: bed.worst_poll.as_secs_f64() * 1e6,
            late_p50_us: {
                let mut late = late;
                late.sort_unstable();
                at(&late, 500)
            },
            bytes_per_pod,
            bytes_per_node,
        }
    }

    /// Mean time of `n` decisions on a cluster filled to `percent`, in microseconds.
    pub fn sample(&self, n: usize, reuse: bool) -> f64 {
        let mut bed = self.bed(true);
        let capacity = self.nodes as u64 * u64::from(CARDS) * 1000;
        let mut given = 0;
        while given * 100 < capacity * self.percent {
            let pod = &self.pods[bed.random.below(self.pods.len())];
            given += if bed.submit(pod).1 { pod.gpu_milli() } else { 0 };
        }
        bed.engine.set_reuse_evaluations(reuse);
        let total: Duration = (0..n)
            .map(|_| {
                let pod = &self.pods[bed.random.below(self.pods.len())];
                bed.submit(pod).0
            })
            .sum();
        total.as_secs_f64() * 1e6 / n as f64
    }
}

impl Bed {
    /// From the pod's arrival to the end of its bind; a pod that has to wait is taken away again.
    fn submit(&mut self, pod: &TracePod) -> (Duration, bool) {
        self.now += 1;
        let now = Timestamp(self.now);
        let uid = self.now.to_string();
        let mut pod = pod.to_pod(&uid, SCHEDULER);
        pod.created_at = now;
        let pod = Box::new(pod);
        let uid = PodUid::from(uid.as_str());
        let started = Instant::now();
        self.engine.handle(now, Event::PodApplied(pod));
        let mut placed = false;
        loop {
            let polled = Instant::now();
            let step = self.engine.poll(now);
            self.worst_poll = self.worst_poll.max(polled.elapsed());
            match step {
                Step::Act(Action::Bind { ticket, .. } | Action::PreBind { ticket, .. }) => {
                    placed = true;
                    self.engine.handle(now, Event::ActionFinished { ticket, outcome: Ended::Done });
                }
                Step::Act(Action::SetCondition { .. }) => {
                    self.engine.handle(now, Event::PodDeleted { uid: uid.clone() })
                }
                Step::Act(Action::Evict { .. } | Action::Nominate { .. } | Action::Report(_)) | Step::Busy => {}
                Step::Rest => return (started.elapsed(), placed),
            }
        }
    }
}

/// Nodes of two makes, as a grown cluster has them.
fn node(n: usize) -> Node {
    let name = format!("node-{n:06}");
    let (model, memory, cpu) = if n.is_multiple_of(4) { ("V100M32", 32_768, 96) } else { ("G2", 40_960, 128) };
    let mut node = Node { name: name.clone(), ..Node::default() };
    node.allocatable = [
        ("cpu", Quantity::units(cpu)),
        ("memory", Quantity::units(1 << 40)),
        ("pods", Quantity::units(250)),
        ("nvidia.com/gpu", Quantity::units(i64::from(CARDS))),
    ]
    .map(|(resource, amount)| (resource.to_owned(), amount))
    .into();
    node.labels = [("kubernetes.io/hostname", name.as_str()), ("nvidia.com/gpu.product", model)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let card = |index| CardSpec::new(CardSpec::made_up_uuid(&name, index), index, model, Some(Mib(memory)));
    node.cards = (0..CARDS).map(card).collect();
    node
}

fn at(sorted: &[Duration], permille: usize) -> f64 {
    let index = (sorted.len() * permille / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(0.0, |t| t.as_secs_f64() * 1e6)
}
