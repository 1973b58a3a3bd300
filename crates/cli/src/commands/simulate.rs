//! `gpu-scheduler simulate`.

mod progress;

use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::experiment::{
    Experiment, ExperimentError, Mix, PlanError, ReportFiles, Settings, TraceName, read_plan,
};
use gpu_scheduler_sim::html;
use gpu_scheduler_sim::openb::TraceError;
use gpu_scheduler_sim::philly::ClusterShape;
use gpu_scheduler_sim::report::{Comparison, Outcome};
use gpu_scheduler_sim::{Permille, Seeds};

use crate::Failure;
use crate::output::{self, Format};
use progress::Bars;

/// Traces that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Trace {
    /// Alibaba's GPU cluster trace 2023: fill a cluster, or with --load let pods come and go
    Openb,
    /// Microsoft's Philly trace 2017: jobs of whole cards that wait, run and end
    Philly,
}

/// What pods ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MixArg {
    /// What the trace's pods ask for
    Trace,
    /// Made up, in place of --pods: shares heavy in memory, shares heavy in compute, some whole cards
    TwoDimensional,
}

/// Flags of `simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An experiment as a YAML file, in place of the flags that describe one
    #[arg(long, value_name = "FILE", required_unless_present = "trace")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    experiment: Box<ExperimentArgs>,
    /// Runs at a time [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
    /// Write a report with charts to this file; it opens in any browser without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Flags that describe an experiment.
#[derive(Debug, clap::Args)]
#[group(id = "described", multiple = true, conflicts_with = "plan")]
struct ExperimentArgs {
    /// Which trace the files hold
    #[arg(long, value_enum)]
    trace: Option<Trace>,
    /// openb: the nodes (CSV: sn, cpu_milli, memory_mib, gpu, model)
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// openb: the pods (CSV: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec where there is one)
    #[arg(long, value_name = "FILE")]
    pods: Option<PathBuf>,
    /// openb: arrival orders (row numbers of the pod file on line 1, ranks of the nodes on line 2), separated by
    /// commas; {seed} in a name stands for each seed
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with = "inflate")]
    order: Vec<PathBuf>,
    /// openb: seeds, such as 42, 42,43 or 42..51: of drawn orders, of comings and goings, of the policy random
    /// [default: 42]
    #[arg(long, visible_alias = "seeds", value_name = "SEEDS")]
    seed: Option<Seeds>,
    /// openb: demand of a drawn order, as a multiple of the cluster's GPUs [default: 1.3]
    #[arg(long, value_name = "FACTOR")]
    inflate: Option<Permille>,
    /// Offered demand as a part of the cluster, such as 0.95; philly needs it, with openb pods come and go
    #[arg(long, value_name = "FACTOR")]
    load: Option<Permille>,
    /// openb with --load: what pods ask for [default: trace]
    #[arg(long, value_enum)]
    mix: Option<MixArg>,
    /// openb with --load: mean stay [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    stay: Option<u64>,
    /// openb with --load: mean stays before measuring [default: 6]
    #[arg(long, value_name = "STAYS")]
    warm_up: Option<u64>,
    /// openb with --load: mean stays of measuring [default: 10]
    #[arg(long, value_name = "STAYS")]
    measure: Option<u64>,
    /// philly: the jobs (CSV: timestamp, duration, num_gpus)
    #[arg(long, value_name = "FILE")]
    jobs_file: Option<PathBuf>,
    /// philly: the cluster, such as 64x8
    #[arg(long, value_name = "NODESxCARDS")]
    cluster: Option<ClusterShape>,
    /// philly: only the first jobs
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Policies, separated by commas: shadow-price, fgd, best-fit, packing, clustering, dot-product, random,
    /// simple-fragmentation, spread [default: shadow-price]
    #[arg(long, visible_alias = "policies", value_name = "POLICY", value_delimiter = ',')]
    policy: Vec<Policy>,
}

impl ExperimentArgs {
    fn settings(&self) -> Settings {
        Settings {
            title: None,
            trace: self.trace.map(|trace| match trace {
                Trace::Openb => TraceName::Openb,
                Trace::Philly => TraceName::Philly,
            }),
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            order: self.order.clone(),
            inflate: self.inflate,
            jobs_file: self.jobs_file.clone(),
            cluster: self.cluster,
            limit: self.limit,
            load: self.load,
            mix: self.mix.map(|mix| match mix {
                MixArg::Trace => Mix::Trace,
                MixArg::TwoDimensional => Mix::TwoDimensional,
            }),
            stay: self.stay,
            warm_up: self.warm_up,
            measure: self.measure,
            policies: self.policy.clone(),
            seeds: self.seed.clone(),
            report: ReportFiles::default(),
        }
    }
}

/// Reads, runs, prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let settings = match &args.plan {
        Some(plan) => read_plan(plan).map_err(plan_failure)?,
        None => args.experiment.settings(),
    };
    let experiment = Experiment::load(&settings).map_err(|error| experiment_failure(error, args.plan.as_deref()))?;
    let reports = Reports::open(&settings, args.html.as_deref())?;
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let bars = Bars::new(experiment.runs()).map_err(Failure::Failed)?;
    let outcomes = experiment.run(args.jobs.map_or_else(cores, NonZero::get), &bars);
    drop(bars);
    reports.write(&title(&settings, args.plan.as_deref()), &outcomes).map_err(Failure::Failed)?;
    match (args.output, outcomes.as_slice()) {
        (Format::Json, [one]) => output::print_json(one),
        (Format::Json, several) => output::print_json(&several),
        (Format::Table, several) => render(several).and_then(|text| output::print(&text)),
    }
    .map_err(Failure::Failed)
}

/// Files that reports go to. They are opened before the runs, so that a wrong path costs no time.
struct Reports(Vec<(Kind, PathBuf, std::fs::File)>);

#[derive(Clone, Copy)]
enum Kind {
    Html,
    Json,
    Table,
}

impl Reports {
    fn open(settings: &Settings, html: Option<&Path>) -> Result<Self, Failure> {
        let report = &settings.report;
        // A flag outranks the plan.
        let html = html.map(Path::to_path_buf).or_else(|| report.html.clone());
        let wanted = [(Kind::Html, html), (Kind::Json, report.json.clone()), (Kind::Table, report.table.clone())];
        let mut files = Vec::new();
        for (kind, path) in wanted {
            let Some(path) = path else { continue };
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let made = folder.map_or(Ok(()), std::fs::create_dir_all);
            let file = made.and_then(|()| std::fs::File::create(&path));
            let file = file
                .with_context(|| format!("cannot write the report {}", path.display()))
                .map_err(Failure::WrongUse)?;
            files.push((kind, path, file));
        }
        Ok(Self(files))
    }

    fn write(self, title: &str, outcomes: &[Outcome]) -> anyhow::Result<()> {
        for (kind, path, mut file) in self.0 {
            let text = match kind {
                Kind::Html => html::page(title, outcomes),
                Kind::Json => serde_json::to_string_pretty(outcomes).context("cannot write the result as JSON")? + "\n",
                Kind::Table => render(outcomes)?,
            };
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write the report {}", path.display()))?;
            eprintln!("report: {}", path.display());
        }
        Ok(())
    }
}

/// The plan's title, or words for what the flags say.
fn title(settings: &Settings, plan: Option<&Path>) -> String {
    let file = plan.and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
    settings.title.clone().or(file).unwrap_or_else(|| match (settings.trace, settings.load) {
        (Some(TraceName::Philly), _) => "The Philly trace: jobs that wait".to_owned(),
        (_, Some(_)) => "The openb trace: pods come and go".to_owned(),
        _ => "The openb trace: a cluster fills".to_owned(),
    })
}

/// A file that is not there is wrong use; one that makes no sense is failed work.
fn experiment_failure(error: ExperimentError, plan: Option<&Path>) -> Failure {
    match error {
        ExperimentError::Setting { setting, what } => Failure::WrongUse(match plan {
            Some(plan) => anyhow!("{}, field {setting}: {what}", plan.display()),
            None => anyhow!("--{setting}: {what}"),
        }),
        ExperimentError::Trace(error @ TraceError::Io { .. }) => Failure::WrongUse(error.into()),
        ExperimentError::Trace(error) => Failure::Failed(error.into()),
    }
}

fn plan_failure(error: PlanError) -> Failure {
    Failure::WrongUse(error.into())
}

/// The comparison as a table.
fn render(outcomes: &[Outcome]) -> anyhow::Result<String> {
    let comparison = Comparison::of(outcomes)
        .ok_or_else(|| anyhow!("no pod arrived: the trace is empty, or --inflate or --load too small"))?;
    let headers: Vec<&str> = comparison.columns.iter().map(String::as_str).collect();
    let mut table = output::table(&headers);
    for row in &comparison.rows {
        table.add_row(row);
    }
    Ok(format!("{}\n\n{}\n{}\n", comparison.head, output::lines(&table), comparison.foot))
}
