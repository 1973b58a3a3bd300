//! `gpu-scheduler plan`.

use std::path::PathBuf;

use anyhow::anyhow;
use gpu_scheduler_cluster::dump::{self, Dump};
use gpu_scheduler_cluster::parse_timestamp;
use gpu_scheduler_cluster::plan::{Plan, PlannedGpu, PlannedPod, plan};
use gpu_scheduler_engine::model::Timestamp;
use gpu_scheduler_engine::{Config, Policy, ProfileConfig};

use crate::Failure;
use crate::output::{self, Format};

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File or directory with Kubernetes objects as YAML or JSON, as `kubectl get nodes,pods -A -o yaml` writes
    /// them; `-` is standard input. May be given several times
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
    /// Fail where an object is malformed, instead of reporting it and going on with the rest
    #[arg(long)]
    strict: bool,
    /// The time of the plan (RFC 3339) [default: the newest timestamp of the dump]
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    now: Option<Timestamp>,
    /// Policy to place by
    #[arg(long, default_value = "shadow-price")]
    policy: Policy,
    /// The name that pods call this scheduler by in spec.schedulerName
    #[arg(long, value_name = "NAME", default_value = "gpu-scheduler")]
    scheduler_name: String,
}

/// Reads, plans, prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let dump = dump::read(&args.filename, &mut std::io::stdin().lock()).map_err(|e| Failure::WrongUse(e.into()))?;
    report_reading(&dump);
    let nothing = dump.nodes.is_empty() && dump.pods.is_empty() && dump.reports.is_empty();
    if nothing && !dump.problems.is_empty() {
        return Err(Failure::Failed(anyhow!("nothing in the input could be read; see the problems above")));
    }
    let profile = ProfileConfig { scheduler: args.scheduler_name.clone(), profile: args.policy.profile() };
    let config = Config { profiles: vec![profile], ..Config::default() };
    let now = args.now.or(dump.newest).unwrap_or_default();
    let plan = plan(&dump, config, now);
    match args.output {
        Format::Json => output::print_json(&plan),
        Format::Table => {
            for notice in &plan.notices {
                eprintln!("note: {notice}");
            }
            output::print(&render(&plan))
        }
    }
    .map_err(Failure::Failed)?;
    if args.strict && !dump.problems.is_empty() {
        let count = dump.problems.len();
        return Err(Failure::Failed(anyhow!("{count} problem(s) in the input, and --strict was given")));
    }
    Ok(())
}

fn report_reading(dump: &Dump) {
    for problem in &dump.problems {
        eprintln!("problem: {problem}");
    }
    if !dump.ignored.is_empty() {
        let kinds: Vec<String> = dump.ignored.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        eprintln!("ignored: {}", kinds.join(", "));
    }
}

fn render(plan: &Plan) -> String {
    let mut table = output::table(&["NAMESPACE", "NAME", "STATUS", "NODE", "GPUS", "MESSAGE"]);
    for pod in &plan.pods {
        table.add_row([
            pod.namespace.as_str(),
            &pod.name,
            pod.phase.name(),
            pod.node.as_deref().unwrap_or("<none>"),
            &gpus(pod),
            &pod.message,
        ]);
    }
    let s = &plan.summary;
    let allocated = format!("{}.{:03}", s.gpu_allocated_milli / 1000, s.gpu_allocated_milli % 1000);
    format!(
        "{}\n{} scheduled, {} pending, {} evicted; {allocated} of {} GPUs allocated\n",
        output::lines(&table),
        s.scheduled,
        s.pending,
        s.evicted,
        s.gpus_total
    )
}

/// `0,1` for whole cards, `0:8192Mi` or `0:8192Mi/30%` for parts, with `?` where it is a guess.
fn gpus(pod: &PlannedPod) -> String {
    let one = |gpu: &PlannedGpu| match &gpu.mig {
        Some(slice) => format!("{}/{slice}", gpu.index),
        None if gpu.kind == Some("whole") => gpu.index.to_string(),
        None if gpu.kind == Some("seat") => format!("{}:seat", gpu.index),
        None if gpu.compute_percent == 0 => format!("{}:{}Mi", gpu.index, gpu.memory_mib),
        None => format!("{}:{}Mi/{}%", gpu.index, gpu.memory_mib, gpu.compute_percent),
    };
    let list: Vec<String> = pod.gpus.iter().map(one).collect();
    let guess = if pod.assumed { "?" } else { "" };
    list.join(",") + guess
}
