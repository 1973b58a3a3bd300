//! What traces show of a leader: each attempt to schedule a pod, the requests that it took, and each term.
//!
//! These are spans of the crate `tracing` under a target of their own. None is ever entered, so log lines stay as they
//! are; and where nobody listens none is made. `docs/tracing.md` is their reference: names are a promise.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{PodName, PodUid, Ticket};
use tracing::field::Empty;
use tracing::{Span, debug_span};

use super::lease::LeaseName;
use super::tenure::Lost;
use crate::driver::{BindAnswer, BindOrder, ReadAnswer};
use crate::metrics::AttemptResult;

/// The target of all spans that are made for traces: whoever exports traces takes these and no others.
pub const SPANS: &str = "gpu_scheduler::spans";

/// The spans of one term's attempts.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Since when the engine has been at work. Whose attempt it is turns out at the end, if it is one at all: a span of
    /// the name `schedule` without a pod is no attempt.
    present: Option<Span>,
    /// Attempts that have placed a pod, until their bind is settled.
    open: BTreeMap<Ticket, (PodUid, Span)>,
}

impl Spans {
    /// The engine is asked what to do.
    pub fn begin(&mut self) {
        self.present.get_or_insert_with(|| {
            debug_span!(
                target: SPANS,
                parent: None,
                "schedule",
                k8s.namespace.name = Empty,
                k8s.pod.name = Empty,
                k8s.pod.uid = Empty,
                k8s.node.name = Empty,
                gpu_scheduler.profile = Empty,
                gpu_scheduler.attempts = Empty,
                gpu_scheduler.result = Empty,
                gpu_scheduler.message = Empty,
                otel.status_code = Empty,
            )
        });
    }

    /// What it said was no end of an attempt.
    pub fn nothing(&mut self) {
        self.present = None;
    }

    /// A pod is placed, and a request goes out to bind it: the span of that request, which ends when it is dropped.
    pub fn bind(&mut self, order: &BindOrder) -> Span {
        let attempt = self.attempt(order);
        debug_span!(
            target: SPANS,
            parent: &attempt,
            "bind",
            otel.kind = "client",
            k8s.namespace.name = &*order.pod.namespace,
            k8s.pod.name = &*order.pod.name,
            k8s.pod.uid = &*order.uid.0,
            k8s.node.name = &*order.node,
            gpu_scheduler.ticket = number(order.ticket.0),
            gpu_scheduler.outcome = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        )
    }

    /// A request goes out to see where a pod is: its span, which ends when it is dropped.
    pub fn read_back(&self, order: &BindOrder) -> Span {
        let attempt = self.open.get(&order.ticket).map_or_else(Span::none, |(_, span)| span.clone());
        debug_span!(
            target: SPANS,
            parent: &attempt,
            "read_back",
            otel.kind = "client",
            k8s.namespace.name = &*order.pod.namespace,
            k8s.pod.name = &*order.pod.name,
            k8s.pod.uid = &*order.uid.0,
            k8s.node.name = Empty,
            gpu_scheduler.ticket = number(order.ticket.0),
            gpu_scheduler.outcome = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        )
    }

    /// A pod waits. Of one whose bind is open this is no attempt of its own, but the word of the one that placed it.
    pub fn waits(
        &mut self,
        uid: &PodUid,
        pod: &PodName,
        profile: &str,
        attempts: Option<u32>,
        result: AttemptResult,
        message: &str,
    ) {
        let Some(present) = self.present.take().filter(|span| !span.is_disabled()) else { return };
        if let Some((_, placed)) = self.open.values().find(|(open, _)| open == uid) {
            placed.record("gpu_scheduler.message", message);
            return;
        }
        describe(&present, uid, pod, profile, attempts);
        present.record("gpu_scheduler.message", message);
        end(&present, result);
    }

    /// A bind has taken effect.
    pub fn bound(&mut self, ticket: Ticket) {
        if let Some((_, attempt)) = self.open.remove(&ticket) {
            end(&attempt, AttemptResult::Scheduled);
        }
    }

    /// Nothing is left to do or to tell: binds that are neither told of nor on their way have failed.
    pub fn rest(&mut self, is_on_its_way: impl Fn(Ticket) -> bool) {
        self.present = None;
        self.open.retain(|ticket, (_, attempt)| {
            let open = is_on_its_way(*ticket);
            if !open {
                end(attempt, AttemptResult::Error);
            }
            open
        });
    }

    /// The attempt of an order: the present one, or an earlier one if its request is repeated.
    fn attempt(&mut self, order: &BindOrder) -> Span {
        if let Some((_, attempt)) = self.open.get(&order.ticket) {
            return attempt.clone();
        }
        let Some(attempt) = self.present.take().filter(|span| !span.is_disabled()) else { return Span::none() };
        describe(&attempt, &order.uid, &order.pod, &order.profile, Some(order.attempts));
        attempt.record("k8s.node.name", &*order.node);
        self.open.insert(order.ticket, (order.uid.clone(), attempt.clone()));
        attempt
    }
}

fn describe(attempt: &Span, uid: &PodUid, pod: &PodName, profile: &str, attempts: Option<u32>) {
    attempt.record("k8s.namespace.name", &*pod.namespace);
    attempt.record("k8s.pod.name", &*pod.name);
    attempt.record("k8s.pod.uid", &*uid.0);
    attempt.record("gpu_scheduler.profile", profile);
    if let Some(attempts) = attempts {
        attempt.record("gpu_scheduler.attempts", number(attempts.into()));
    }
}

/// Traces know no unsigned numbers: those become texts.
fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn end(attempt: &Span, result: AttemptResult) {
    attempt.record("gpu_scheduler.result", result.as_str());
    // A pod that fits nowhere is an answer, not a failure.
    if result == AttemptResult::Error {
        attempt.record("otel.status_code", "error");
    }
}

/// What a request to bind came to.
pub(super) fn answered(request: &Span, answer: &BindAnswer) {
    match answer {
        BindAnswer::Done => outcome(request, "bound", None),
        BindAnswer::Refused(why) => outcome(request, "refused", Some(why)),
        BindAnswer::Conflict(why) => outcome(request, "conflict", Some(why)),
        BindAnswer::Deposed => {
            outcome(request, "fenced", Some("this replica does not lead any more; nothing was sent"))
        }
        BindAnswer::Unknown(why) => outcome(request, "unknown", Some(why)),
    }
}

/// Where a pod is, as far as a request could tell.
pub(super) fn found(request: &Span, answer: &ReadAnswer) {
    match answer {
        ReadAnswer::On(node) => {
            request.record("k8s.node.name", node.as_str());
            outcome(request, "bound", None);
        }
        ReadAnswer::Unbound => outcome(request, "unbound", None),
        ReadAnswer::Gone => outcome(request, "gone", None),
        ReadAnswer::Unknown(why) => outcome(request, "unknown", Some(why)),
    }
}

fn outcome(request: &Span, outcome: &'static str, failure: Option<&str>) {
    request.record("gpu_scheduler.outcome", outcome);
    if let Some(why) = failure {
        request.record("otel.status_code", "error");
        request.record("otel.status_description", why);
    }
}

/// A term begins: its span, which ends when it is dropped. Without an election there is no lease.
pub(super) fn lead(lease: Option<&LeaseName>, instance: &str) -> Span {
    let span = debug_span!(
        target: SPANS,
        parent: None,
        "lead",
        gpu_scheduler.identity = instance,
        k8s.namespace.name = Empty,
        gpu_scheduler.lease = Empty,
        gpu_scheduler.end = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    );
    if let Some(lease) = lease {
        span.record("k8s.namespace.name", lease.namespace.as_str());
        span.record("gpu_scheduler.lease", lease.name.as_str());
    }
    span
}

/// How a term ended: in order, or because leadership was lost.
pub(super) fn led(term: &Span, lost: Option<&Lost>) {
    term.record("gpu_scheduler.end", if lost.is_some() { "lost" } else { "asked" });
    if let Some(lost) = lost {
        term.record("otel.status_code", "error");
        term.record("otel.status_description", lost.to_string());
    }
}

#[cfg(test)]
mod tests;
