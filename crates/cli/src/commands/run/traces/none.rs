//! A build without the feature `otlp`: it reads where traces should go, and refuses to pretend that they go there.

use gpu_scheduler_cluster::config::Tracing;
use tracing_subscriber::layer::Identity;

/// No traces.
pub struct Traces;

impl Traces {
    /// Nothing, if nothing is asked for; else why not, as a problem of the field `tracing.endpoint`.
    pub fn start(settings: Option<&Tracing>, _instance: &str) -> Result<Self, String> {
        match settings {
            None => Ok(Self),
            Some(settings) => Err(format!(
                "this build cannot send traces to {}; build with cargo build --release -p gpu-scheduler-cli --features \
                 otlp, or leave tracing out",
                settings.endpoint
            )),
        }
    }

    /// Nobody listens.
    pub fn layer(&self) -> Option<Identity> {
        None
    }

    /// There is nothing to send.
    pub fn flush(self) {}
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_cluster::config::Bounded;

    use super::*;

    #[test]
    fn what_it_cannot_do_it_refuses() {
        let endpoint = "localhost:4317".parse().unwrap();
        let settings = Tracing { endpoint, sampling_rate_per_million: Bounded::new(1).unwrap() };
        let why = Traces::start(Some(&settings), "a").err().unwrap();
        for words in ["localhost:4317", "--features otlp", "leave tracing out"] {
            assert!(why.contains(words), "{why}");
        }
        let traces = Traces::start(None, "a").unwrap();
        assert!(traces.layer().is_none());
        traces.flush();
    }
}
