//! Binds on their way, and what became of them.
//!
//! A request whose answer is lost may have taken effect, or may still do so. Nothing is guessed: the pod is read,
//! and as long as it is nowhere the same bind is sent again. Two equal binds do no harm, since the second one is
//! refused; giving the cards to another pod meanwhile would.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_engine::model::{Millis, Ticket, Timestamp};

use super::effect::{BindOrder, Effect};
use super::input::{BindAnswer, ReadAnswer};

/// First pause before a question is asked again; it doubles each time.
const FIRST_PAUSE: Millis = Millis(100);
/// Longest pause.
const LONGEST_PAUSE: Millis = Millis(5_000);

/// After how many answers that say nothing the pod says so.
const TELL_AFTER: u32 = 5;

/// What becomes of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    Open,
    /// This has to be asked first.
    Ask(Effect),
    /// It took effect.
    Bound(BindOrder),
    /// It did not, for sure.
    Failed(BindOrder, String),
}

/// A question that is to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Bind,
    ReadBack,
}

#[derive(Debug)]
struct Flight {
    order: BindOrder,
    /// Answers that said nothing, so far.
    unknown: u32,
    /// What the last answer said.
    why: String,
    /// Whether the last answer was a conflict: then the request it belongs to took no effect.
    conflict: bool,
    /// What to do when its pause ends.
    again: Option<Again>,
}

/// All orders without a verdict.
#[derive(Debug, Default)]
pub(super) struct Binds {
    flights: BTreeMap<Ticket, Flight>,
    pauses: BTreeSet<(Timestamp, Ticket)>,
}

impl Binds {
    /// Orders without a verdict.
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether this one is without a verdict.
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.flights.contains_key(&ticket)
    }

    /// Of them, those that wait for an answer now. The others pause before they are asked again, and hold up nobody.
    pub fn waiting(&self) -> usize {
        self.flights.len() - self.pauses.len()
    }

    pub fn start(&mut self, order: BindOrder) {
        self.flights
            .insert(order.ticket, Flight { order, unknown: 0, why: String::new(), conflict: false, again: None });
    }

    /// When the first pause ends.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.pauses.first().map(|(at, _)| *at)
    }

    /// What is to be asked again by now.
    pub fn due(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((at, ticket)) = self.pauses.first().copied()
            && at <= now
        {
            self.pauses.remove(&(at, ticket));
            let Some(flight) = self.flights.get_mut(&ticket) else { continue };
            match flight.again.take() {
                Some(Again::Bind) => effects.push(Effect::Bind(flight.order.clone())),
                Some(Again::ReadBack) => effects.push(Effect::ReadBack(flight.order.clone())),
                None => {}
            }
        }
        effects
    }

    /// The answer to a bind request.
    pub fn answered(&mut self, ticket: Ticket, answer: BindAnswer) -> Verdict {
        let Some(flight) = self.flights.get_mut(&ticket) else { return Verdict::Open };
        match answer {
            BindAnswer::Done => self.end(ticket, Verdict::Bound),
            // The refusal may be that of a second request, because the first one took effect.
            BindAnswer::Refused(why) if flight.unknown == 0 => self.end(ticket, |order| Verdict::Failed(order, why)),
            // Nothing is to be done any more: the term ends.
            BindAnswer::Deposed => Verdict::Open,
            BindAnswer::Refused(_) => Verdict::Ask(Effect::ReadBack(flight.order.clone())),
            BindAnswer::Conflict(why) => {
                flight.conflict = true;
                flight.why = why;
                Verdict::Ask(Effect::ReadBack(flight.order.clone()))
            }
            #[cfg(feature = "planted-bugs")]
            BindAnswer::Unknown(why) if crate::planted::is_planted(crate::planted::Bug::LostAnswerIsRefusal) => {
                self.end(ticket, |order| Verdict::Failed(order, why))
            }
            BindAnswer::Unknown(why) => {
                flight.conflict = false;
                flight.why = why;
                flight.unknown = flight.unknown.saturating_add(1);
                Verdict::Ask(Effect::ReadBack(flight.order.clone()))
            }
        }
    }

    /// The answer to the question where the pod is.
    pub fn read_back(&mut self, now: Timestamp, ticket: Ticket, answer: ReadAnswer) -> Verdict {
        let Some(flight) = self.flights.get_mut(&ticket) else { return Verdict::Open };
        match answer {
            ReadAnswer::On(node) if *node == *flight.order.node => self.end(ticket, Verdict::Bound),
            ReadAnswer::On(node) => {
                let why = format!("the pod was bound to node {node} by somebody else");
                self.end(ticket, |order| Verdict::Failed(order, why))
            }
            ReadAnswer::Gone => self.end(ticket, |order| Verdict::Failed(order, "the pod is gone".to_owned())),
            // The one request that there was is known to have taken no effect.
            ReadAnswer::Unbound if flight.conflict && flight.unknown == 0 => {
                let why = std::mem::take(&mut flight.why);
                self.end(ticket, |order| Verdict::Failed(order, why))
            }
            ReadAnswer::Unbound => {
                // A conflict over and over is as good as silence, or a pod on its way out would be asked about at once.
                flight.unknown = flight.unknown.max(1);
                self.pause(now, ticket, Again::Bind)
            }
            ReadAnswer::Unknown(why) => {
                flight.why = why;
                flight.unknown = flight.unknown.saturating_add(1);
                self.pause(now, ticket, Again::ReadBack)
            }
        }
    }

    /// Whether it is time to say on the pod that its bind gets no answer: once, after some tries.
    pub fn overdue(&self, ticket: Ticket) -> Option<(&BindOrder, &str)> {
        let flight = self.flights.get(&ticket).filter(|f| f.unknown == TELL_AFTER && f.again.is_some())?;
        Some((&flight.order, &flight.why))
    }

    fn end(&mut self, ticket: Ticket, verdict: impl FnOnce(BindOrder) -> Verdict) -> Verdict {
        match self.flights.remove(&ticket) {
            Some(flight) => verdict(flight.order),
            None => Verdict::Open,
        }
    }

    fn pause(&mut self, now: Timestamp, ticket: Ticket, again: Again) -> Verdict {
        let Some(flight) = self.flights.get_mut(&ticket) else { return Verdict::Open };
        flight.again = Some(again);
        let doubled = FIRST_PAUSE.0 << flight.unknown.saturating_sub(1).min(6);
        self.pauses.insert((now + Millis(doubled).min(LONGEST_PAUSE), ticket));
        Verdict::Open
    }
}
