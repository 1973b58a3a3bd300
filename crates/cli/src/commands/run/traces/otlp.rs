//! Traces to an OpenTelemetry collector: OTLP over gRPC.

use std::time::Duration;

use gpu_scheduler_cluster::config::Tracing;
use gpu_scheduler_cluster::live::SPANS;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::sampler::PerMillion;
use super::sender::Sender;

/// How long the last spans may take at the end: together with the binds under way and the lease, well below the 30 s that
/// a pod is given.
const LAST: Duration = Duration::from_secs(5);

/// Spans on their way to a collector, if one is asked for. A thread of their own sends them in batches; what it cannot
/// keep up with is dropped, and scheduling never waits for it.
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Prepares to send. Call it inside of the runtime, on which the connection lives. The collector need not be there
    /// yet. What fails is a problem of the field `tracing.endpoint`.
    pub fn start(settings: Option<&Tracing>, instance: &str) -> Result<Self, String> {
        let Some(settings) = settings else { return Ok(Self(None)) };
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(settings.endpoint.url()).build();
        let exporter = exporter.map_err(|error| format!("traces cannot be sent to {}: {error}", settings.endpoint))?;
        let resource = Resource::builder()
            .with_service_name("gpu-scheduler")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", instance.to_owned()),
            ])
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Sender::new(exporter, settings.endpoint.clone()))
            .with_sampler(PerMillion::new(settings.sampling_rate_per_million.get()))
            .with_resource(resource)
            .build();
        Ok(Self(Some(provider)))
    }

    /// What listens for spans: those that are meant for traces, and nothing else of the process.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> Option<impl Layer<S> + use<S>> {
        let tracer = self.0.as_ref()?.tracer("gpu-scheduler");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            // They are never entered and say what they are by their names.
            .with_context_activation(false)
            .with_tracked_inactivity(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false);
        Some(layer.with_filter(Targets::new().with_target(SPANS, Level::DEBUG)))
    }

    /// Sends what is left. It blocks, and the runtime must still be there.
    pub fn flush(self) {
        let Some(provider) = self.0 else { return };
        if let Err(error) = provider.shutdown_with_timeout(LAST) {
            warn!(%error, "the last traces could not be sent");
        }
    }
}
