//! `gpu-scheduler agent`: one node's GPUs, found, handed out, reported and measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use gpu_scheduler_agent::agent::{self, AgentOptions};
use gpu_scheduler_agent::check::check;
use gpu_scheduler_agent::collect::CollectOptions;
use gpu_scheduler_agent::config::{
    ConfigFiles, ConfigSource, DeviceListStrategy, Fallback, Layer, MigStrategy, OneOrMany, from_environment,
};
use gpu_scheduler_agent::handout::{DEFAULT_CHECKPOINT, Options};
use gpu_scheduler_agent::health::{DEFAULT_QUIET, XidPolicy};
use gpu_scheduler_agent::metrics::{HostnameLabel, MetricsOptions};
use gpu_scheduler_agent::mig;
use gpu_scheduler_agent::nvml::DEFAULT_PATH;
use gpu_scheduler_agent::observe::{DEFAULT_PATIENCE, ObserveOptions};
use gpu_scheduler_agent::resources::SeatRules;
use gpu_scheduler_agent::sharing::mps::MpsOptions;
use gpu_scheduler_agent::topology_manager::{KubeletConfigError, KubeletSource};
use gpu_scheduler_cluster::config::{LogFormat, LogLevel, Logging};
use gpu_scheduler_cluster::live::clients;
use gpu_scheduler_cluster::serve::{CertificateFiles, Listen};
use gpu_scheduler_engine::model::{TopologyManager, TopologyManagerPolicy, TopologyManagerScope};
use tokio::sync::watch;
use tracing::info;
use tracing_subscriber::layer::Identity;

use super::{log, signals};
use crate::Failure;
use crate::output::print;

/// Run a node's agent: find its GPUs, hand them out through kubelet, report and measure them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: String,
    /// Where the API server is, and who we are; without it $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Look once, print what would be reported, labelled, offered and handed out, and end; nothing is written and nobody asked
    /// but the driver
    #[arg(long)]
    check: bool,
    /// Only report and measure; another device plugin hands out the cards
    #[arg(long)]
    observe_only: bool,
    /// Partition cards as the node's label nvidia.com/mig.config wants them (docs/agent-mig.md)
    #[arg(long, conflicts_with = "observe_only")]
    partition: bool,
    /// mig-parted's file, from which that label chooses; without it the standard names
    #[arg(long, value_name = "FILE", requires = "partition")]
    mig_parted_file: Option<PathBuf>,
    /// Somebody reboots nodes that are in MIG's state rebooting; without it a mode that waits for a reset is a failure
    #[arg(long, requires = "partition")]
    mig_reboots: bool,
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    sharing: Sharing,
    #[command(flatten)]
    kubelet: Kubelet,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    pages: Pages,
    /// Seconds between looks at the cards
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    interval: u64,
    /// How a line of the log looks: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = log_format)]
    log_format: LogFormat,
}

/// NVIDIA's configuration (docs/agent-config.md).
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Configuration of devices (docs/agent-config.md)")]
struct Configuration {
    /// NVIDIA's configuration file for all nodes
    #[arg(long, value_name = "FILE", env = "CONFIG_FILE", conflicts_with = "config_dir")]
    config_file: Option<PathBuf>,
    /// Folder of such files; the node's label nvidia.com/device-plugin.config names one
    #[arg(long, value_name = "DIR", env = "CONFIG_FILE_SRCDIR")]
    config_dir: Option<PathBuf>,
    /// The file of nodes without that label
    #[arg(long, value_name = "NAME", env = "DEFAULT_CONFIG")]
    default_config: Option<String>,
    /// What is tried for nodes with neither: named, single, empty
    #[arg(long, value_name = "LIST", env = "FALLBACK_STRATEGIES", value_delimiter = ',')]
    config_fallbacks: Vec<Fallback>,
    /// How MIG devices are offered: none, single or mixed
    #[arg(long, value_name = "STRATEGY")]
    mig_strategy: Option<MigStrategy>,
    /// How containers are told of devices: envvar, volume-mounts, cdi-annotations, cdi-cri
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device_list_strategy: Vec<DeviceListStrategy>,
    /// End where the driver cannot be asked or the cards cannot be offered as configured, rather than wait
    #[arg(long, value_name = "BOOL")]
    fail_on_init_error: Option<bool>,
}

/// Seats for shares.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Shares (docs/agent-sharing.md)")]
struct Sharing {
    /// Shares that one card may hold; 0: no nvidia.com/gpu.shared here
    #[arg(long, value_name = "COUNT", default_value_t = SeatRules::default().per_card)]
    seats_per_card: u32,
    /// Run MPS for shares, which holds them to their memory and compute as far as they cooperate
    #[arg(long)]
    mps_for_shares: bool,
    /// The MPS control daemon
    #[arg(long, value_name = "PROGRAM", default_value = "nvidia-cuda-mps-control")]
    mps_control: PathBuf,
}

/// How kubelet aligns devices to NUMA nodes, which the scheduler has to know: it places pods where kubelet would.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "kubelet's topology manager (docs/agent.md)")]
struct Kubelet {
    /// kubelet's configuration file, of which topologyManagerPolicy and topologyManagerScope are read
    #[arg(long, value_name = "FILE")]
    kubelet_config: Option<PathBuf>,
    /// Its policy, whatever the file says: none, best-effort, restricted or single-numa-node
    #[arg(long, value_name = "POLICY")]
    topology_manager_policy: Option<TopologyManagerPolicy>,
    /// Its scope, whatever the file says: container or pod
    #[arg(long, value_name = "SCOPE")]
    topology_manager_scope: Option<TopologyManagerScope>,
}

/// Where things are on the node.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Places on the node")]
struct Places {
    /// NVIDIA's management library
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    nvml: PathBuf,
    /// The host's root as this process sees it; devices are looked for in its dev
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
    /// sysfs
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    sysfs: PathBuf,
    /// procfs, of the host's processes
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    procfs: PathBuf,
    /// kubelet's folder for device plugins
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/device-plugins")]
    device_plugins: PathBuf,
    /// kubelet's socket for device plugins; without it kubelet.sock in that folder
    #[arg(long, value_name = "FILE", env = "KUBELET_SOCKET")]
    kubelet_socket: Option<PathBuf>,
    /// kubelet's socket that lists devices of pods
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/pod-resources/kubelet.sock")]
    pod_resources: PathBuf,
    /// File that keeps what was handed out
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CHECKPOINT)]
    checkpoint: PathBuf,
    /// Folder for the CDI specification
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    cdi_dir: PathBuf,
}

/// Health and metrics.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Health and metrics (docs/agent-metrics.md)")]
struct Pages {
    /// Address of health and metrics
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9400")]
    bind_address: SocketAddr,
    /// Certificate to serve them over HTTPS with, and its chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Call the label of the node's name hostname and not Hostname
    #[arg(long)]
    small_hostname_label: bool,
}

/// Runs until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<(), Failure> {
    let kubelet = kubelet(&args.kubelet).map_err(|problem| Failure::Failed(problem.into()))?;
    let options = options(args, kubelet).map_err(Failure::WrongUse)?;
    if args.check {
        let found = check(&options).map_err(|problem| Failure::Failed(problem.into()))?;
        return print(&found).map_err(Failure::Failed);
    }
    log::start(Logging { format: args.log_format, level: LogLevel::default() }, Identity::new())
        .map_err(Failure::Failed)?;
    // A node's agent has little to do at a time, and its memory is the node's.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::Failed)?;
    let ended = runtime.block_on(serve(args, options));
    // A call that the driver never answers keeps its thread, and must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(5));
    ended.map_err(Failure::Failed)
}

async fn serve(args: &Args, options: AgentOptions) -> anyhow::Result<()> {
    let (client, writes) = clients(args.kubeconfig.as_deref()).await?;
    let (stop, mut stopped) = watch::channel(false);
    tokio::spawn(signals::wait(move || {
        // Nobody listens if the agent has ended by itself.
        let _ = stop.send(true);
    })?);
    info!(node = args.node_name, version = env!("CARGO_PKG_VERSION"), "the agent starts");
    agent::run(options, client, writes, async move { drop(stopped.wait_for(|down| *down).await) }).await?;
    Ok(())
}

fn options(args: &Args, topology_manager: Option<TopologyManager>) -> anyhow::Result<AgentOptions> {
    let (places, sharing, pages) = (&args.places, &args.sharing, &args.pages);
    let variable = |name: &str| std::env::var(name).ok();
    let (disabled, enabled) = (variable("DP_DISABLE_HEALTHCHECKS"), variable("DP_ENABLE_HEALTHCHECKS"));
    let environment = from_environment(variable).map_err(|problem| anyhow!(problem).context("in the environment"))?;
    let certificate = pages.tls_cert_file.clone().zip(pages.tls_private_key_file.clone());
    Ok(AgentOptions {
        observe: ObserveOptions {
            node: args.node_name.clone(),
            collect: CollectOptions {
                nvml_path: places.nvml.clone(),
                sysfs_root: places.sysfs.clone(),
                procfs_root: places.procfs.clone(),
                xids: XidPolicy::from_env(disabled.as_deref(), enabled.as_deref()),
                quiet: DEFAULT_QUIET,
            },
            hands_out: !args.observe_only,
            topology_manager,
            interval: Duration::from_secs(args.interval),
            patience: DEFAULT_PATIENCE,
        },
        handout: Options {
            plugins: places.device_plugins.clone(),
            kubelet: places.kubelet_socket.clone(),
            pod_resources: places.pod_resources.clone(),
            checkpoint: places.checkpoint.clone(),
            config: ConfigSource {
                files: files(&args.configuration),
                environment,
                command_line: command_line(&args.configuration),
            },
            seats: SeatRules { per_card: sharing.seats_per_card, by_mps: sharing.mps_for_shares },
            cdi: places.cdi_dir.clone(),
            root: places.host_root.clone(),
            procfs: places.procfs.clone(),
            mps: MpsOptions { control: sharing.mps_control.clone(), ..MpsOptions::default() },
            ..Options::usual(&args.node_name)
        },
        mig: args.partition.then(|| mig::Options {
            nvml_path: places.nvml.clone(),
            file: args.mig_parted_file.clone(),
            journal: places.checkpoint.with_file_name("mig-changes.json"),
            reboots: args.mig_reboots,
            ..mig::Options::usual(&args.node_name)
        }),
        metrics: MetricsOptions {
            node: args.node_name.clone(),
            hostname_label: if pages.small_hostname_label { HostnameLabel::Small } else { HostnameLabel::Capital },
        },
        listen: Listen {
            address: pages.bind_address,
            certificate: certificate.map(|(certificate, key)| CertificateFiles { certificate, key }),
        },
    })
}

fn kubelet(args: &Kubelet) -> Result<Option<TopologyManager>, KubeletConfigError> {
    KubeletSource {
        file: args.kubelet_config.clone(),
        policy: args.topology_manager_policy,
        scope: args.topology_manager_scope,
    }
    .read()
}

fn files(args: &Configuration) -> ConfigFiles {
    match (&args.config_file, &args.config_dir) {
        (Some(file), _) => ConfigFiles::One(file.clone()),
        (None, Some(path)) => ConfigFiles::Folder {
            path: path.clone(),
            default: args.default_config.clone().filter(|name| !name.is_empty()),
            fallbacks: args.config_fallbacks.clone(),
        },
        (None, None) => ConfigFiles::None,
    }
}

/// What the command line says of the configuration, which counts before environment and file.
fn command_line(args: &Configuration) -> Layer {
    let mut layer = Layer::default();
    layer.flags.mig_strategy = args.mig_strategy;
    layer.flags.fail_on_init_error = args.fail_on_init_error;
    let strategies = args.device_list_strategy.clone();
    layer.flags.plugin.device_list_strategy = (!strategies.is_empty()).then_some(OneOrMany::Many(strategies));
    layer
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("write text or json".to_owned()),
    }
}
