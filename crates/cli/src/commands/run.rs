//! `gpu-scheduler run`: the scheduler on a live cluster.

mod traces;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use futures::FutureExt;
use futures::future::BoxFuture;
use gpu_scheduler_cluster::config::{BindAddress, ConfigProblem, Journal, RunConfig};
use gpu_scheduler_cluster::driver::Limits;
use gpu_scheduler_cluster::live::{Candidacy, LeaseName, Question, Reporter, Scheduler, Times, clients};
use gpu_scheduler_cluster::metrics::Metrics;
use gpu_scheduler_cluster::serve::{self, Ask, CertificateFiles, Health, Listen};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::info;

use super::{log, signals};
use crate::Failure;
use traces::Traces;

/// Questions that may wait for the engine.
const QUESTIONS: usize = 16;

/// Schedule a cluster: watch it, decide, bind
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration; without it the defaults (see docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the API server is, and who we are; without it $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address of health, metrics and debug pages; overrides the configuration's bindAddress
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind_address: Option<SocketAddr>,
    /// Certificate to serve them over HTTPS with, and its chain, as PEM; overrides the configuration's tlsCertFile
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key, as PEM; overrides the configuration's tlsPrivateKeyFile
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Whether other replicas may exist; overrides the configuration's leaderElection.leaderElect
    #[arg(long, value_name = "BOOL")]
    leader_elect: Option<bool>,
    /// Write every event and action to compressed files in this folder, for `replay`; overrides journal.directory
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut config =
        RunConfig::load(args.config.as_deref()).map_err(|e| Failure::WrongUse(anyhow!(e).context("--config")))?;
    if let Some(address) = args.bind_address {
        config.bind_address = BindAddress(address);
    }
    if let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) {
        config.tls_cert_file = Some(certificate.clone());
        config.tls_private_key_file = Some(key.clone());
    }
    if let Some(elect) = args.leader_elect {
        config.leader_election.leader_elect = elect;
    }
    if let Some(directory) = &args.journal {
        let journal = config.journal.take().unwrap_or_else(|| Journal::in_directory(directory));
        config.journal = Some(Journal { directory: directory.clone(), ..journal });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::Failed)?;
    let instance = format!("{}_{}", hostname(), uuid::Uuid::new_v4());
    let traces = {
        let _inside = runtime.enter();
        Traces::start(config.tracing.as_ref(), &instance).map_err(|what| {
            let (file, field) = (args.config.clone(), "tracing.endpoint".to_owned());
            Failure::WrongUse(anyhow!(ConfigProblem { file, line: None, field, what }).context("--config"))
        })?
    };
    log::start(config.logging, traces.layer()).map_err(Failure::Failed)?;
    let ended = runtime.block_on(schedule(args, config, instance));
    // Spans of the last term have ended by now.
    traces.flush();
    ended.map_err(Failure::Failed)
}

/// Threads that carry requests and watches, beside the one that decides: half of the cores. One has time for thousands of
/// requests a second, and each more is woken more often than it is needed.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

async fn schedule(args: &Args, config: RunConfig, instance: String) -> anyhow::Result<()> {
    let (client, writes) = clients(args.kubeconfig.as_deref()).await?;
    let election = &config.leader_election;
    let times = Times {
        lease: election.lease_duration.duration(),
        renew_deadline: election.renew_deadline.duration(),
        retry: election.retry_period.duration(),
    };
    let candidacy = election.leader_elect.then(|| Candidacy {
        lease: LeaseName {
            namespace: election.resource_namespace().to_owned(),
            name: election.resource_name.to_string(),
            identity: instance.clone(),
        },
        times,
    });
    let (metrics, health) = (Metrics::new(), Health::new(times.lease));
    let (ask, questions) = mpsc::channel(QUESTIONS);
    let (stop, shutdown) = watch::channel(false);
    let mut stopped = shutdown.clone();
    let ended = async move { drop(stopped.wait_for(|down| *down).await) };
    let ask: Arc<dyn Ask> = Arc::new(Engine(ask));
    let address = config.bind_address.0;
    let certificate = config.tls_cert_file.clone().zip(config.tls_private_key_file.clone());
    let certificate = certificate.map(|(certificate, key)| CertificateFiles { certificate, key });
    let listen = Listen { address, certificate };
    let (address, server) =
        serve::start(listen, metrics.clone(), health.clone(), config.to_json(), ask, Some(client.clone()), ended)
            .await
            .with_context(|| format!("cannot serve health and metrics on {address}"))?;
    let asked = health.clone();
    tokio::spawn(signals::wait(move || {
        asked.set_shutting_down();
        // Nobody listens if the scheduler has ended by itself.
        let _ = stop.send(true);
    })?);
    info!(%address, instance, version = env!("CARGO_PKG_VERSION"), "gpu-scheduler starts");
    let limits = Limits { binds_in_flight: config.binds_in_flight.get() as usize };
    let scheduler = Scheduler {
        client,
        writes,
        limits,
        candidacy,
        reporter: Reporter { instance },
        metrics,
        health,
        questions,
        shutdown,
        config,
    };
    scheduler.run().await;
    server.await.context("the health server has panicked")?.context("the health server failed")
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".to_owned(), |h| h.trim().to_owned())
}

/// Asks the loop that owns the engine.
struct Engine(mpsc::Sender<Question>);

impl Ask for Engine {
    fn explain(&self, namespace: &str, name: &str) -> BoxFuture<'_, Option<String>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        async move {
            let (answer, answered) = oneshot::channel();
            self.0.send(Question { namespace, name, answer }).await.ok()?;
            answered.await.ok().flatten()
        }
        .boxed()
    }
}
