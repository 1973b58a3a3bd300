//! Reports to the log, the counter, and events on pods.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::Report;

/// The name under which events are written.
pub(crate) const CONTROLLER: &str = "gpu-scheduler-agent";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Where reports go to.
#[derive(Debug, Clone)]
pub struct Reports {
    sender: mpsc::UnboundedSender<Report>,
    told: Family<ReasonLabel, Counter>,
}

/// Where they come out, until somebody tells them.
#[derive(Debug)]
pub struct Teller {
    receiver: mpsc::UnboundedReceiver<Report>,
}

impl Reports {
    /// Both ends. Reports are few (at most some for each call of kubelet's), so the way between has no bound.
    pub fn channel() -> (Self, Teller) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let told = Family::default();
        for reason in Report::REASONS {
            drop(told.get_or_create(&ReasonLabel { reason }));
        }
        (Self { sender, told }, Teller { receiver })
    }

    /// Adds the counter `gpu_scheduler_agent_reports_total{reason}`.
    pub fn register(&self, registry: &mut Registry) {
        let help = "What was told of devices that were handed out, by reason";
        registry.register("gpu_scheduler_agent_reports", help, self.told.clone());
    }

    /// Tells it: at once in the log and the counter, soon after on the pod.
    pub fn tell(&self, report: Report) {
        warn!(reason = report.reason(), "{}", report.message());
        self.told.get_or_create(&ReasonLabel { reason: report.reason() }).inc();
        // Without anybody who writes events the log has it.
        let _ = self.sender.send(report);
    }
}

impl Teller {
    /// The next report; `None` once nobody can send any.
    pub async fn next(&mut self) -> Option<Report> {
        self.receiver.recv().await
    }

    /// Writes reports about pods as events, until nobody can send any. An event that is not taken is given up: the log
    /// has it.
    pub async fn write_events(mut self, client: Client, node: &str) {
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(node.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        while let Some(report) = self.next().await {
            let Some((uid, namespace, name)) = report.pod() else { continue };
            let pod = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                uid: Some(uid.to_string()),
                ..ObjectReference::default()
            };
            let event = Event {
                type_: EventType::Warning,
                reason: report.reason().to_owned(),
                note: Some(cut(report.message())),
                action: "Allocate".to_owned(),
                secondary: None,
            };
            if let Err(error) = recorder.publish(&event, &pod).await {
                debug!(%error, namespace, name, "an event was not taken");
            }
        }
    }
}

/// The API server takes notes of at most 1,024 bytes.
pub(crate) fn cut(mut note: String) -> String {
    const LONGEST: usize = 1024;
    if note.len() > LONGEST {
        note.truncate(note.floor_char_boundary(LONGEST - 4));
        note.push_str(" ...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_counted_and_comes_out() {
        let (reports, mut teller) = Reports::channel();
        let mut registry = Registry::default();
        reports.register(&mut registry);
        let report = Report::Unexplained { resource: crate::resources::ResourceName::gpu(), gave: vec![] };
        reports.tell(report.clone());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("gpu_scheduler_agent_reports_total{reason=\"GPUAllocationUnexplained\"} 1\n"), "{text}");
        assert!(text.contains("gpu_scheduler_agent_reports_total{reason=\"GPUAllocationMismatch\"} 0\n"), "{text}");
        assert_eq!(teller.receiver.try_recv(), Ok(report));
    }

    #[test]
    fn long_notes_are_cut_at_a_character() {
        assert_eq!(cut("short".to_owned()), "short");
        let note = cut("ä".repeat(600));
        assert!(note.len() <= 1024 && note.ends_with("ä ..."));
    }

    #[tokio::test]
    async fn a_report_about_a_pod_is_an_event_on_it() {
        let (client, mut requests) = crate::fixtures::api::server(&serde_json::json!({}));
        let (reports, teller) = Reports::channel();
        reports.tell(Report::Unexplained { resource: crate::resources::ResourceName::gpu(), gave: vec![] });
        reports.tell(Report::UnreadableRecord {
            uid: "u".into(),
            namespace: "default".into(),
            name: "a".into(),
            error: "its version is 2".into(),
        });
        drop(reports);
        teller.write_events(client, "n1").await;
        let (method, path, body) = requests.recv().await.unwrap();
        assert_eq!(
            (method.as_str(), path.split('?').next()),
            ("POST", Some("/apis/events.k8s.io/v1/namespaces/default/events"))
        );
        let event: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &"GPUAllocationUnreadable".into()));
        assert_eq!((&event["regarding"]["uid"], &event["regarding"]["name"]), (&"u".into(), &"a".into()));
        assert_eq!(
            (&event["reportingController"], &event["reportingInstance"]),
            (&"gpu-scheduler-agent".into(), &"n1".into())
        );
        assert!(event["note"].as_str().unwrap().contains("its version is 2"), "{body}");
        assert!(requests.recv().await.is_none(), "what is about no pod is no event");
    }
}
