//! The `testbed` binary: a Kubernetes cluster with simulated GPU nodes on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use gpu_scheduler_testbed::bench;
use gpu_scheduler_testbed::control_plane::{Access, ControlPlane, ControlPlaneError, KubeScheduler, Options};
use gpu_scheduler_testbed::objects::{GpuModel, NodeObject};
use tokio::signal::unix::{SignalKind, signal};

/// Wrong use, as clap has it for wrong flags.
const WRONG_USE: u8 = 2;
/// The work failed.
const FAILED: u8 = 1;

/// A Kubernetes control plane with simulated GPU nodes, on 127.0.0.1 and for as long as this runs.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a cluster, print `ready` when it is usable, and run until SIGTERM or Ctrl-C
    Up(Up),
    /// Measure a scheduler beside Kubernetes' own and beside what the API server allows, and print the tables
    Bench(Bench),
}

#[derive(Debug, Args)]
struct Bench {
    /// The scheduler that is measured
    #[arg(long, value_name = "PROGRAM", default_value = "target/release/gpu-scheduler")]
    scheduler: PathBuf,

    /// Who is measured
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = bench::Who::ALL)]
    contenders: Vec<bench::Who>,

    /// How many simulated nodes of eight cards; one bed after the other
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000,5000")]
    nodes: Vec<usize>,

    /// Pods of a backlog
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pods: usize,

    /// How often all but kube-scheduler work it off; the run in the middle counts
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,

    /// Pods a second that arrive
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "20,50,100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rates: Vec<u32>,

    /// Seconds for which they do; 0: none arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=600))]
    seconds: u32,

    /// Pods of one more backlog of shares on the largest bed, by which memory is judged; 0: none
    #[arg(long, value_name = "COUNT", default_value_t = 50_000)]
    many: usize,

    /// A document whose part between its marks is replaced by what was measured
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Up {
    /// The minor of Kubernetes, such as 1.37 [default: the newest there is]
    #[arg(long, value_name = "MINOR")]
    kubernetes: Option<String>,

    /// How many simulated nodes
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    nodes: u32,

    /// How many cards each node has
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    gpus: u32,

    /// The model of the cards
    #[arg(long, value_name = "PRODUCT", default_value = GpuModel::A100_80GB.product,
        value_parser = PossibleValuesParser::new(GpuModel::ALL.map(|model| model.product)))]
    model: String,

    /// Where to write the administrator's kubeconfig; removed at the end [default: beside the logs]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Do without Kubernetes' own scheduler: pods that name no scheduler then wait
    #[arg(long)]
    no_kube_scheduler: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            use ControlPlaneError::{ForeignFile, UnknownMinor};
            let wrong_use = matches!(error.downcast_ref(), Some(UnknownMinor { .. } | ForeignFile { .. }));
            ExitCode::from(if wrong_use { WRONG_USE } else { FAILED })
        }
    }
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<()> {
    // Before anything is started, so that no signal meets the default of ending without cleaning up.
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
    let work = async {
        match command {
            Command::Up(args) => up(args).await,
            Command::Bench(args) => measure(args).await,
        }
    };
    tokio::select! {
        result = work => result,
        // Whatever `up` holds, started or half started, is dropped and thereby stopped.
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// Never returns but with an error; dropping the future is what ends the cluster.
async fn up(args: Up) -> anyhow::Result<()> {
    if let Some(path) = &args.kubeconfig {
        Access::check_kubeconfig(path)?;
    }
    let kube_scheduler = (!args.no_kube_scheduler).then(KubeScheduler::default);
    let options = Options { minor: args.kubernetes, kube_scheduler, ..Options::default() };
    let mut cluster = ControlPlane::start(options).await?;
    let model = GpuModel::ALL.into_iter().find(|model| model.product == args.model);
    let model = model.expect("clap lets only these pass");
    let node = |n: u32| {
        let zone = ["zone-a", "zone-b", "zone-c"][n as usize % 3];
        NodeObject::new(&format!("gpu-node-{n}")).gpus(args.gpus, model).zone(zone).build()
    };
    cluster.add_nodes((0..args.nodes).map(node)).await?;

    let file = match &args.kubeconfig {
        Some(path) => {
            cluster.admin().write_kubeconfig(path)?;
            Some(RemovedAtTheEnd(std::path::absolute(path).context("could not find the current folder")?))
        }
        None => None,
    };
    let kubeconfig = file.as_ref().map_or(cluster.admin_kubeconfig(), |file| &file.0);
    let kubectl = cluster.binaries().kubernetes("kubectl");
    println!("API server  {}", cluster.url());
    println!("logs        {}/*.log", cluster.folder().display());
    println!("kubeconfig  {}", kubeconfig.display());
    println!("kubectl     {}", kubectl.display());
    println!("\nIn another terminal:\n");
    println!("    export KUBECONFIG={}", kubeconfig.display());
    println!("    {} get nodes -L nvidia.com/gpu.product,nvidia.com/gpu.count\n", kubectl.display());
    println!("Ctrl-C stops the cluster and removes all of it.");
    println!("ready");
    Err(cluster.ended().await.into())
}

/// One bed after the other; the tables of each as soon as there are.
async fn measure(args: Bench) -> anyhow::Result<()> {
    let scheduler = std::path::absolute(&args.scheduler).context("could not find the current folder")?;
    // A document that cannot be written is known before an hour of measuring, not after it.
    args.document.as_deref().map(|path| replace_measured(path, None)).transpose()?;
    let largest = args.nodes.iter().max().copied();
    let mut measured = String::new();
    for nodes in args.nodes {
        let settings = bench::Settings {
            scheduler: scheduler.clone(),
            contenders: args.contenders.clone(),
            nodes,
            pods: args.pods,
            rounds: args.rounds,
            rates: args.rates.clone(),
            seconds: args.seconds,
            many: if Some(nodes) == largest { args.many } else { 0 },
        };
        let tables = bench::run(&settings).await?.to_markdown();
        print!("{tables}");
        measured.push_str(&tables);
        // What one bed took is not lost with the next.
        args.document.as_deref().map(|path| replace_measured(path, Some(&measured))).transpose()?;
    }
    Ok(())
}

/// Writes what was measured between a document's marks; without it, looks whether that is possible.
fn replace_measured(path: &std::path::Path, measured: Option<&str>) -> anyhow::Result<()> {
    const MARKS: (&str, &str) = ("<!-- measured: make bench-live writes from here -->\n", "<!-- to here -->");
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let parts = text.split_once(MARKS.0).and_then(|(before, rest)| Some((before, rest.split_once(MARKS.1)?.1)));
    let (before, after) =
        parts.with_context(|| format!("{} lacks the lines {:?} and {:?}", path.display(), MARKS.0.trim(), MARKS.1))?;
    let Some(measured) = measured else { return Ok(()) };
    let text = format!("{before}{}\n{measured}{}{after}", MARKS.0, MARKS.1);
    std::fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

/// A file that goes when this is dropped.
struct RemovedAtTheEnd(PathBuf);

impl Drop for RemovedAtTheEnd {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}
