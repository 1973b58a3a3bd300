use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_scheduler_engine::model::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::*;

/// A span that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ended {
    name: &'static str,
    parent: Option<u64>,
    id: u64,
    fields: BTreeMap<&'static str, String>,
}

impl Ended {
    fn is(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

impl Visit for Ended {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps the spans that ended, in order.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Ended>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = attributes.parent().map(Id::into_u64);
        let mut span = Ended { name: attributes.metadata().name(), parent, id: id.into_u64(), ..Ended::default() };
        attributes.record(&mut span);
        context.span(id).unwrap().extensions_mut().insert(span);
    }
    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        values.record(context.span(id).unwrap().extensions_mut().get_mut::<Ended>().unwrap());
    }
    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.0.lock().unwrap().extend(context.span(&id).unwrap().extensions_mut().remove::<Ended>());
    }
}

impl Listener {
    fn start() -> (Self, DefaultGuard) {
        let listener = Self::default();
        let ours = Targets::new().with_target(SPANS, Level::DEBUG);
        (listener.clone(), tracing_subscriber::registry().with(listener.with_filter(ours)).set_default())
    }

    /// What has ended since the last call.
    fn ended(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn order(ticket: u64) -> BindOrder {
    BindOrder {
        ticket: Ticket(ticket),
        uid: PodUid::from(&*format!("uid-{ticket}")),
        pod: PodName { namespace: "default".into(), name: format!("pod-{ticket}").into() },
        node: "n1".into(),
        record: None,
        attempts: 2,
        created_at: Timestamp::default(),
        profile: "gpu-scheduler".to_owned(),
    }
}

fn say(spans: &mut Spans, order: &BindOrder, result: AttemptResult) {
    spans.begin();
    spans.waits(&order.uid, &order.pod, &order.profile, Some(3), result, "no room");
    spans.nothing();
}

#[test]
fn an_attempt_has_its_pod_and_the_requests_that_it_took() {
    let (listener, _guard) = Listener::start();
    let (mut spans, order) = (Spans::default(), order(7));
    spans.begin();
    let request = spans.bind(&order);
    spans.nothing();
    // The answer is lost, and the pod is nowhere.
    answered(&request, &BindAnswer::Unknown("no answer within 10s".to_owned()));
    drop(request);
    spans.rest(|_| true);
    spans.begin();
    let look = spans.read_back(&order);
    spans.nothing();
    found(&look, &ReadAnswer::Unbound);
    drop(look);
    // So it is sent again: nothing new is decided.
    spans.begin();
    let request = spans.bind(&order);
    spans.nothing();
    answered(&request, &BindAnswer::Done);
    drop(request);
    spans.begin();
    spans.bound(order.ticket);
    spans.nothing();
    let ended: Vec<_> = listener.ended().into_iter().filter(|s| !s.fields.is_empty()).collect();
    assert_eq!(ended.iter().map(|s| s.name).collect::<Vec<_>>(), ["bind", "read_back", "bind", "schedule"]);
    let attempt = &ended[3];
    for request in &ended[..3] {
        assert_eq!(request.parent, Some(attempt.id));
        assert_eq!((request.is("k8s.pod.uid"), request.is("gpu_scheduler.ticket")), ("uid-7", "7"));
    }
    assert_eq!((ended[0].is("gpu_scheduler.outcome"), ended[0].is("otel.status_code")), ("unknown", "error"));
    assert_eq!(ended[0].is("otel.status_description"), "no answer within 10s");
    assert_eq!((ended[1].is("gpu_scheduler.outcome"), ended[1].is("otel.status_code")), ("unbound", ""));
    assert_eq!((ended[2].is("gpu_scheduler.outcome"), ended[2].is("k8s.node.name")), ("bound", "n1"));
    for (field, value) in [
        ("k8s.namespace.name", "default"),
        ("k8s.pod.name", "pod-7"),
        ("k8s.pod.uid", "uid-7"),
        ("k8s.node.name", "n1"),
        ("gpu_scheduler.profile", "gpu-scheduler"),
        ("gpu_scheduler.attempts", "2"),
        ("gpu_scheduler.result", "scheduled"),
        ("otel.status_code", ""),
    ] {
        assert_eq!(attempt.is(field), value, "{field}");
    }
}

#[test]
fn a_pod_that_waits_says_why() {
    let (listener, _guard) = Listener::start();
    let mut spans = Spans::default();
    say(&mut spans, &order(1), AttemptResult::Unschedulable);
    let ended = listener.ended();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].is("gpu_scheduler.result"), ended[0].is("otel.status_code")), ("unschedulable", ""));
    assert_eq!((ended[0].is("gpu_scheduler.message"), ended[0].is("gpu_scheduler.attempts")), ("no room", "3"));
}

#[test]
fn a_failed_bind_is_the_error_of_the_attempt_that_placed_the_pod() {
    let (listener, _guard) = Listener::start();
    let (mut spans, order) = (Spans::default(), order(1));
    spans.begin();
    answered(&spans.bind(&order), &BindAnswer::Refused("quota".to_owned()));
    spans.nothing();
    // The engine has the pod back off and say so: no second attempt.
    say(&mut spans, &order, AttemptResult::Error);
    spans.rest(|_| false);
    let ended: Vec<_> = listener.ended().into_iter().filter(|s| !s.fields.is_empty()).collect();
    assert_eq!(ended.iter().map(|s| s.name).collect::<Vec<_>>(), ["bind", "schedule"]);
    assert_eq!(ended[0].is("gpu_scheduler.outcome"), "refused");
    assert_eq!((ended[1].is("gpu_scheduler.result"), ended[1].is("otel.status_code")), ("error", "error"));
    assert_eq!(ended[1].is("gpu_scheduler.message"), "no room");
}

#[test]
fn work_that_ends_in_no_attempt_has_no_pod() {
    let (listener, _guard) = Listener::start();
    let mut spans = Spans::default();
    for _ in 0..2 {
        spans.begin();
        spans.begin();
        spans.rest(|_| true);
    }
    let ended = listener.ended();
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|s| s.name == "schedule" && s.fields.is_empty()), "{ended:?}");
}

#[test]
fn a_term_says_how_it_ended() {
    let (listener, _guard) = Listener::start();
    let lease = LeaseName { namespace: "system".to_owned(), name: "l".to_owned(), identity: "a".to_owned() };
    led(&lead(Some(&lease), "a"), Some(&Lost::NotRenewed(Duration::from_secs(10), "timeout".to_owned())));
    led(&lead(None, "a"), None);
    let ended = listener.ended();
    assert_eq!((ended[0].is("gpu_scheduler.lease"), ended[0].is("k8s.namespace.name")), ("l", "system"));
    assert_eq!((ended[0].is("gpu_scheduler.end"), ended[0].is("otel.status_code")), ("lost", "error"));
    assert!(ended[0].is("otel.status_description").contains("timeout"));
    assert_eq!((ended[1].is("gpu_scheduler.end"), ended[1].is("otel.status_code")), ("asked", ""));
}

#[test]
fn where_nobody_listens_nothing_is_kept() {
    let silent = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(silent, || {
        let (mut spans, order) = (Spans::default(), order(1));
        spans.begin();
        assert!(spans.bind(&order).is_disabled());
        assert!(spans.open.is_empty());
        say(&mut spans, &order, AttemptResult::Error);
    });
}
