//! What an OpenTelemetry collector is to a sender of traces: it takes them over gRPC, and here keeps them.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status, async_trait};

/// A collector on a free port of 127.0.0.1, until it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    spans: Kept,
    server: JoinHandle<io::Result<()>>,
}

/// A span that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Its trace and itself.
    pub id: (Vec<u8>, Vec<u8>),
    /// The span above it; empty: none.
    pub parent: Vec<u8>,
    /// When it began and ended, in nanoseconds since the epoch.
    pub time: (u64, u64),
    /// Attributes, those of the process that sent it included, as text.
    pub attributes: BTreeMap<String, String>,
    /// What went wrong, if it says that something did.
    pub error: Option<String>,
}

impl Span {
    /// An attribute; empty if there is none.
    pub fn is(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

impl Collector {
    /// Starts one.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let spans = Kept::default();
        let router = Router::new().route_service(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            TraceServiceServer::new(spans.clone()),
        );
        let server = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { address, spans, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that was received so far, in that order.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<Span>>>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Vec<Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for from in request.into_inner().resource_spans {
            let sender = from.resource.map(|resource| resource.attributes).unwrap_or_default();
            for span in from.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let status = span.status.unwrap_or_default();
                self.lock().push(Span {
                    name: span.name,
                    id: (span.trace_id, span.span_id),
                    parent: span.parent_span_id,
                    time: (span.start_time_unix_nano, span.end_time_unix_nano),
                    attributes: sender.iter().chain(&span.attributes).map(as_text).collect(),
                    error: (status.code() == ERROR).then_some(status.message),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

const ERROR: opentelemetry_proto::tonic::trace::v1::status::StatusCode =
    opentelemetry_proto::tonic::trace::v1::status::StatusCode::Error;

fn as_text(attribute: &KeyValue) -> (String, String) {
    let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    (attribute.key.clone(), value)
}
