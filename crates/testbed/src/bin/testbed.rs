//! The `testbed` binary: a Kubernetes cluster with simulated GPU nodes on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
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
    let Command::Up(args) = Cli::parse().command;
    match run(args) {
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
async fn run(args: Up) -> anyhow::Result<()> {
    // Before anything is started, so that no signal meets the default of ending without cleaning up.
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
    tokio::select! {
        result = up(args) => result,
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

/// A file that goes when this is dropped.
struct RemovedAtTheEnd(PathBuf);

impl Drop for RemovedAtTheEnd {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}
