//! The log on standard error, and beside it whoever listens for more.

use anyhow::anyhow;
use gpu_scheduler_cluster::config::{LogFormat, Logging};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Starts the log and `more`, for the whole process.
pub fn start(logging: Logging, more: impl Layer<Registry> + Send + Sync) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .with_env_var("GPU_SCHEDULER_LOG")
        .try_from_env()
        // kube's client tells every answer that is not 2xx as an error; what it means is told here.
        .unwrap_or_else(|_| EnvFilter::new(format!("{},kube_client=off", logging.level.as_str())));
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match logging.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(more)
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|error| anyhow!("cannot start logging: {error}"))
}
