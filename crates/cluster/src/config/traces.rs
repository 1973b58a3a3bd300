//! Where traces go, and how many.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;
use serde::{Deserialize, Serialize};

use super::values::Bounded;

/// Traces for an OpenTelemetry collector, as `TracingConfiguration` of Kubernetes' components has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tracing {
    /// The collector.
    pub endpoint: CollectorAddress,
    /// How many of a million attempts to schedule a pod are traced. Required, because Kubernetes' own default of none
    /// is no use to a component that nobody sends a parent span to.
    pub sampling_rate_per_million: Bounded<0, 1_000_000>,
}

/// Where a collector takes OTLP over gRPC: `HOST:PORT`, as Kubernetes' components write it. The connection is not
/// encrypted.
///
/// ```
/// use gpu_scheduler_cluster::config::CollectorAddress;
/// assert_eq!("localhost:4317".parse::<CollectorAddress>().unwrap().url(), "http://localhost:4317");
/// assert!("http://localhost:4317".parse::<CollectorAddress>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CollectorAddress(Authority);

impl CollectorAddress {
    /// As a URL for a gRPC client.
    pub fn url(&self) -> String {
        format!("http://{}", self.0)
    }
}

impl FromStr for CollectorAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<Authority>().ok();
        let plain = |a: &Authority| !a.host().is_empty() && a.port_u16().is_some_and(|port| port > 0);
        address.filter(|a| plain(a) && !text.contains('@')).map(Self).ok_or_else(|| {
            format!("{text:?} is not an address; write HOST:PORT without a scheme, such as localhost:4317 (gRPC, not encrypted)")
        })
    }
}

impl TryFrom<String> for CollectorAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CollectorAddress> for String {
    fn from(address: CollectorAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for CollectorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, good) in [
            ("localhost:4317", true),
            ("otel-collector.monitoring.svc:4317", true),
            ("10.0.0.1:4317", true),
            ("[::1]:4317", true),
            ("", false),
            ("localhost", false),
            (":4317", false),
            ("localhost:0", false),
            ("localhost:99999", false),
            ("localhost:otlp", false),
            ("http://localhost:4317", false),
            ("localhost:4317/v1/traces", false),
            ("user:word@localhost:4317", false),
            ("local host:4317", false),
        ] {
            let read = text.parse::<CollectorAddress>();
            assert_eq!(read.is_ok(), good, "{text}: {read:?}");
            if let Ok(address) = read {
                assert_eq!(address.to_string(), text);
            }
        }
    }
}
