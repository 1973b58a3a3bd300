//! `gpu-scheduler simulate`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::openb::{Arrivals, TraceError, read_nodes, read_pods};
use gpu_scheduler_sim::replay::Replay;
use gpu_scheduler_sim::report::{Landmark, Load, Run};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;
use crate::output::{self, Format};

/// Traces that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Trace {
    /// Alibaba's GPU cluster trace 2023
    Openb,
}

/// Flags of `simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which trace the files hold
    #[arg(long, value_enum)]
    trace: Trace,
    /// The trace's nodes (CSV: sn, cpu_milli, memory_mib, gpu, model)
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// The trace's pods (CSV: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec where there is one)
    #[arg(long, value_name = "FILE")]
    pods: PathBuf,
    /// Arrival order: row numbers of the pod file on line 1, ranks of the nodes on line 2
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "inflate"])]
    order: Option<PathBuf>,
    /// Seed of a drawn arrival order, and of the policy random
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Demand of a drawn order, as a multiple of the cluster's GPUs
    #[arg(long, value_name = "FACTOR", default_value = "1.3", value_parser = parse_permille)]
    inflate: u64,
    /// Policies, separated by commas: fgd, best-fit, packing, clustering, dot-product, random, simple-fragmentation,
    /// spread
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "fgd")]
    policy: Vec<Policy>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// `1.3` as 1300 thousandths.
fn parse_permille(text: &str) -> Result<u64, String> {
    let expected =
        || format!("{text:?} is not a factor between 0.001 and 1000 with at most three decimals, such as 1.3");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 4 || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
        return Err(expected());
    }
    let permille = format!("{whole}{fraction:0<3}").parse::<u64>().map_err(|_| expected())?;
    if (1..=1_000_000).contains(&permille) { Ok(permille) } else { Err(expected()) }
}

/// Reads, replays, prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let nodes = read_nodes(&args.nodes).map_err(failure)?;
    let pods = read_pods(&args.pods).map_err(failure)?;
    let (arrivals, seed) = match &args.order {
        Some(order) => (Arrivals::read(order, &pods, &nodes).map_err(failure)?, seed_of(order)),
        None => (Arrivals::draw(args.seed, args.inflate, &pods, &nodes), Some(args.seed)),
    };
    let Trace::Openb = args.trace;
    let mut runs = Vec::new();
    for policy in &args.policy {
        let bar = progress(*policy, arrivals.pods.len()).map_err(Failure::Failed)?;
        let replay = Replay { nodes: &nodes, pods: &pods, arrivals: &arrivals, policy: *policy, seed };
        runs.push(replay.run(|done| bar.set_position(done as u64)));
        bar.finish_and_clear();
    }
    match (args.output, runs.as_slice()) {
        (Format::Json, [run]) => output::print_json(run),
        (Format::Json, runs) => output::print_json(&runs),
        (Format::Table, runs) => render(runs).and_then(|text| output::print(&text)),
    }
    .map_err(Failure::Failed)
}

/// A file that is not there is wrong use; one that makes no sense is failed work.
fn failure(error: TraceError) -> Failure {
    match error {
        TraceError::Io { .. } => Failure::WrongUse(error.into()),
        _ => Failure::Failed(error.into()),
    }
}

/// The seed in a name such as `default.42.txt`.
fn seed_of(order: &Path) -> Option<u64> {
    Path::new(order.file_stem()?).extension()?.to_str()?.parse().ok()
}

/// Shown on a terminal only.
fn progress(policy: Policy, pods: usize) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{prefix:22} {bar:40} {pos}/{len} pods  {eta}")
        .context("the template of the progress bar is wrong")?;
    let bar = ProgressBar::new(pods as u64).with_style(style).with_prefix(policy.name());
    Ok(bar)
}

/// A comparison at 100 % of arrived demand, or at the end of a run that does not get there.
fn render(runs: &[Run]) -> anyhow::Result<String> {
    let first = runs.first().ok_or_else(|| anyhow!("no policy was given"))?;
    let cards = first.capacity.gpu_milli as f64 / 1000.0;
    let full = runs.iter().all(|r| r.at_arrived.contains_key(&Load(100)));
    let headers = ["POLICY", "ALLOCATED", "HELD", "UNALLOCATED", "FRAGMENTED", "REFUSED", "DECISIONS/S", "P50", "P99"];
    let mut table = output::table(&headers);
    for run in runs {
        let at = if full { run.at_arrived.get(&Load(100)).copied() } else { run.last().map(Landmark::from) };
        let at = at.ok_or_else(|| anyhow!("no pod arrived: the trace is empty, or --inflate too small"))?;
        let amount = |pct: f64| format!("{:.1} ({pct:.2} %)", pct * cards / 100.0);
        table.add_row([
            run.policy.clone(),
            amount(at.allocated_pct),
            amount(at.held_pct),
            amount(at.unallocated_pct),
            amount(at.fragmented_pct),
            at.unscheduled.to_string(),
            format!("{:.0}", run.decisions.per_second),
            format!("{:.1} us", run.decisions.p50_us),
            format!("{:.1} us", run.decisions.p99_us),
        ]);
    }
    let load = match (full, first.last()) {
        (false, Some(last)) => last.arrived_pct,
        _ => 100.0,
    };
    let head = format!(
        "{} pods that ask for {:.0} cards arrive at {cards:.0} cards. When {load:.0} % have arrived, in cards:\n\n",
        first.arrived.pods,
        first.arrived.gpu_milli as f64 / 1000.0
    );
    let foot = "\nAllocated: asked for and given. Held: given, whole cards for shares included. \
        Fragmented: idle, but of no use to the usual mix of pods. Refused: pods that fitted nowhere.\n";
    Ok(head + &output::lines(&table) + foot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        for (text, expected) in [("1.3", Some(1300)), ("2", Some(2000)), ("0.001", Some(1)), ("1.25", Some(1250))] {
            assert_eq!(parse_permille(text).ok(), expected, "{text}");
        }
        for text in ["", "0", "-1", "1.2345", "x", "1e3", "1001", "."] {
            assert!(parse_permille(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seeds_of_files() {
        assert_eq!(seed_of(Path::new("a/default.42.txt")), Some(42));
        assert_eq!(seed_of(Path::new("order.txt")), None);
    }
}
