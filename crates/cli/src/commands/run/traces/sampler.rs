//! Which traces are worth sending.

use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingResult, ShouldSample};

/// So many of a million attempts to schedule a pod, each with all its requests; every term, for there are few; and no
/// work that came to no attempt, which is what a span `schedule` without a pod is. Such a span is judged at its end,
/// when all that will be known of it is: spans that are never entered and have no children begin late here.
#[derive(Debug, Clone)]
pub struct PerMillion(Sampler);

impl PerMillion {
    /// This many.
    pub fn new(rate: u32) -> Self {
        Self(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(f64::from(rate) / 1e6))))
    }
}

impl ShouldSample for PerMillion {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let rule = match name {
            "lead" => &Sampler::AlwaysOn,
            "schedule" if !attributes.iter().any(|a| a.key.as_str() == "k8s.pod.uid") => &Sampler::AlwaysOff,
            _ => &self.0,
        };
        rule.should_sample(parent, trace, name, kind, attributes, links)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::SamplingDecision;

    use super::*;

    fn sampled(rate: u32, name: &str, attributes: &[KeyValue]) -> bool {
        let trace = TraceId::from_bytes([0x7f; 16]);
        let result = PerMillion::new(rate).should_sample(None, trace, name, &SpanKind::Internal, attributes, &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    #[test]
    fn attempts_by_the_rate_terms_always_and_idle_work_never() {
        let pod = [KeyValue::new("k8s.pod.uid", "u")];
        for (rate, name, attributes, expected) in [
            (1_000_000, "schedule", &pod[..], true),
            (999_999, "schedule", &pod, true),
            (1, "schedule", &pod, false),
            (0, "schedule", &pod, false),
            (1_000_000, "schedule", &[], false),
            (0, "lead", &[], true),
            (1_000_000, "bind", &[], true),
        ] {
            assert_eq!(sampled(rate, name, attributes), expected, "{rate} {name} {attributes:?}");
        }
    }
}
