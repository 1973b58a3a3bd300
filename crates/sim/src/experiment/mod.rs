//! An experiment: a trace, a cluster, policies and seeds, and what is asked of them.

mod file;
mod settings;

use std::path::{Path, PathBuf};

use gpu_scheduler_engine::Policy;
use thiserror::Error;

pub use file::{PlanError, read_plan};
pub use settings::{Mix, ReportFiles, Settings, TraceName};

use crate::Permille;
use crate::openb::{Arrivals, TraceError, TraceNode, TracePod, read_nodes, read_pods, two_dimensional_pods};
use crate::parallel::in_parallel;
use crate::philly::{ClusterShape, Job, Queueing, read_jobs};
use crate::replay::Replay;
use crate::report::Outcome;
use crate::steady::{Steady, Stream};

/// Why an experiment cannot be made.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// A setting is missing, or does not go with the others.
    #[error("{setting}: {what}")]
    Setting {
        /// Its name: that of the flag, and of the field of a plan.
        setting: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
    /// A file of the trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Told how the runs of an experiment get on, from several threads.
pub trait Progress: Sync {
    /// A run begins. It is told of its steps by the function that is returned.
    fn start(&self, run: &str, steps: usize) -> Box<dyn FnMut(usize) + '_>;
    /// A run is done.
    fn done(&self, run: &str);
}

/// Says nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Progress for Quiet {
    fn start(&self, _: &str, _: usize) -> Box<dyn FnMut(usize) + '_> {
        Box::new(|_| {})
    }
    fn done(&self, _: &str) {}
}

/// Ready to run: its files have been read.
#[derive(Debug)]
pub struct Experiment {
    policies: Vec<Policy>,
    scenario: Scenario,
}

#[derive(Debug)]
enum Scenario {
    Fill { nodes: Vec<TraceNode>, pods: Vec<TracePod>, orders: Vec<(Option<u64>, Arrivals)> },
    Steady { nodes: Vec<TraceNode>, pods: Vec<TracePod>, mix: Mix, stream: Stream, seeds: Vec<u64> },
    Queue { jobs: Vec<Job>, cluster: ClusterShape, load: Permille },
}

impl Experiment {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// Where settings are missing or contradict each other, or a file makes no sense.
    pub fn load(settings: &Settings) -> Result<Self, ExperimentError> {
        settings.check()?;
        let scenario = match settings.required("trace", settings.trace)? {
            TraceName::Openb if settings.load.is_some() => Self::steady(settings)?,
            TraceName::Openb => Self::fill(settings)?,
            TraceName::Philly => Self::queue(settings)?,
        };
        Ok(Self { policies: settings.policies(), scenario })
    }

    fn cluster_and_pods(settings: &Settings) -> Result<(Vec<TraceNode>, Vec<TracePod>), ExperimentError> {
        let nodes = read_nodes(settings.required("nodes", settings.nodes.as_deref())?)?;
        let pods = match settings.mix() {
            Mix::Trace => read_pods(settings.required("pods", settings.pods.as_deref())?)?,
            Mix::TwoDimensional => two_dimensional_pods(),
        };
        Ok((nodes, pods))
    }

    fn fill(settings: &Settings) -> Result<Scenario, ExperimentError> {
        let (nodes, pods) = Self::cluster_and_pods(settings)?;
        let mut orders = Vec::new();
        if settings.order.is_empty() {
            for seed in settings.seeds() {
                orders.push((Some(seed), Arrivals::draw(seed, settings.inflate().0, &pods, &nodes)));
            }
        }
        for path in settings.order_files() {
            orders.push((seed_of(&path), Arrivals::read(&path, &pods, &nodes)?));
        }
        Ok(Scenario::Fill { nodes, pods, orders })
    }

    fn steady(settings: &Settings) -> Result<Scenario, ExperimentError> {
        let (nodes, pods) = Self::cluster_and_pods(settings)?;
        let load = settings.required("load", settings.load)?;
        Ok(Scenario::Steady {
            nodes,
            pods,
            mix: settings.mix(),
            stream: settings.stream(load),
            seeds: settings.seeds(),
        })
    }

    fn queue(settings: &Settings) -> Result<Scenario, ExperimentError> {
        let jobs = read_jobs(settings.required("jobs-file", settings.jobs_file.as_deref())?, settings.limit)?;
        let cluster = settings.required("cluster", settings.cluster)?;
        let load = settings.required("load", settings.load)?;
        if jobs.iter().all(|job| u64::from(job.cards) > cluster.total()) {
            let what = format!("none of the jobs fits {} cards; name a larger cluster", cluster.total());
            return Err(ExperimentError::Setting { setting: "cluster", what });
        }
        Ok(Scenario::Queue { jobs, cluster, load })
    }

    /// All runs, policy by policy and seed by seed, on at most `threads` threads.
    pub fn run(&self, threads: usize, progress: &impl Progress) -> Vec<Outcome> {
        let variants = self.variants();
        in_parallel(self.policies.len() * variants, threads, |n| {
            let (policy, variant) = (self.policies[n / variants], n % variants);
            let label = self.label(policy, variant);
            let mut step = progress.start(&label, self.steps(variant));
            let outcome = self.one(policy, variant, &mut step);
            drop(step);
            progress.done(&label);
            outcome
        })
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.policies.len() * self.variants()
    }

    fn variants(&self) -> usize {
        match &self.scenario {
            Scenario::Fill { orders, .. } => orders.len(),
            Scenario::Steady { seeds, .. } => seeds.len(),
            Scenario::Queue { .. } => 1,
        }
    }

    fn label(&self, policy: Policy, variant: usize) -> String {
        let seed = match &self.scenario {
            Scenario::Fill { orders, .. } => orders[variant].0,
            Scenario::Steady { seeds, .. } => Some(seeds[variant]),
            Scenario::Queue { .. } => None,
        };
        seed.map_or_else(|| policy.name().to_owned(), |seed| format!("{} {seed}", policy.name()))
    }

    fn steps(&self, variant: usize) -> usize {
        match &self.scenario {
            Scenario::Fill { orders, .. } => orders[variant].1.pods.len(),
            Scenario::Steady { .. } => Steady::PARTS,
            Scenario::Queue { jobs, .. } => jobs.len(),
        }
    }

    fn one(&self, policy: Policy, variant: usize, step: impl FnMut(usize)) -> Outcome {
        match &self.scenario {
            Scenario::Fill { nodes, pods, orders } => {
                let (seed, arrivals) = &orders[variant];
                Outcome::Fill(Replay { nodes, pods, arrivals, policy, seed: *seed }.run(step))
            }
            Scenario::Steady { nodes, pods, mix, stream, seeds } => {
                let (mix, stream) = (mix.name(), *stream);
                Outcome::Steady(Steady { nodes, pods, mix, policy, seed: seeds[variant], stream }.run(step))
            }
            Scenario::Queue { jobs, cluster, load } => {
                Outcome::Queue(Queueing { jobs, cluster: *cluster, load: *load, policy }.run(step))
            }
        }
    }
}

/// The seed in a name such as `default.42.txt`.
fn seed_of(order: &Path) -> Option<u64> {
    Path::new(order.file_stem()?).extension()?.to_str()?.parse().ok()
}

/// `order` with `{seed}` replaced.
fn with_seed(order: &Path, seed: u64) -> PathBuf {
    PathBuf::from(order.to_string_lossy().replace("{seed}", &seed.to_string()))
}
