//! Requests on their way to the API server, and their answers on the way back.

use gpu_scheduler_cluster::driver::BindOrder;
use gpu_scheduler_cluster::exchange::{Answer, Call, NoAnswer, Say};
use gpu_scheduler_cluster::live::{PATIENCE, Record};
use gpu_scheduler_engine::model::PodUid;
use http::StatusCode;
use serde_json::Value;

use super::broken::Broken;
use super::clock::{Instant, millis};
use super::plan::{Answered, Asked, Moment};
use super::replica::Replica;
use super::sim::{Happening, Sim};

/// A request that was not answered yet.
#[derive(Debug, Clone)]
pub struct InFlight {
    /// Who asked.
    pub replica: usize,
    /// In which of its lives.
    pub life: u64,
    /// In which of its terms; what belongs to one that has ended means nothing.
    pub term: u64,
    /// What for.
    pub why: Why,
    /// What.
    pub request: Request,
    /// Whether it has left the process: then it may arrive whatever becomes of that.
    pub left: bool,
    /// When whoever asked gives up.
    pub until: Instant,
}

impl InFlight {
    /// Whether the life of a replica goes on that it is of, and the term.
    fn is_of(&self, replica: &Replica) -> bool {
        self.life == replica.life && (self.term == 0 || self.term == replica.term_number())
    }
}

/// What a request is for.
#[derive(Debug, Clone)]
pub enum Why {
    /// A bind.
    Bind(BindOrder),
    /// The question where its pod is.
    ReadBack(BindOrder),
    /// To say something on a pod.
    Say(PodUid, Say),
    /// An eviction.
    Evict(u64),
    /// An attempt at the Lease.
    Lease(u64),
}

/// A request.
#[derive(Debug, Clone)]
pub enum Request {
    /// About a pod.
    Call(Call),
    /// The Lease is read.
    ReadLease,
    /// The Lease is written.
    WriteLease(Record),
}

/// An answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// As it comes over the wire.
    Answer(Answer),
    /// The Lease, as it is now.
    Lease(Option<Record>),
}

impl Sim {
    /// Sends what a term asks or writes, unless its fence is closed.
    pub fn send(&mut self, replica: usize, why: Why, call: Call) {
        let (now, base) = (self.now, self.base);
        let what = format!("{} {}", call.method, call.path);
        let from = &self.replicas[replica];
        let (name, identity, fence) = (from.name.clone(), from.identity(), from.fence.clone());
        let Some(term) = from.term.as_ref().map(|term| term.number) else { return };
        let (life, request) = (from.life, Request::Call(call));
        if !fence.is_open_at(base.at(now)) {
            self.note(|| format!("{name} may not send {what}"));
            let flight = InFlight { replica, life, term, why, request, left: false, until: now };
            let number = self.add_call(flight);
            return self.at(now, Happening::Answered(number, Err(NoAnswer::Deposed)));
        }
        let reads = matches!(why, Why::ReadBack(_));
        let holder = self.api.lease().map(|lease| lease.holder).unwrap_or_default();
        if !reads && holder != identity {
            self.breaks(Broken::WroteWithoutLease { at: now, replica: name.clone(), what: what.clone(), holder });
        }
        if !reads {
            self.last_write = (now, what.clone());
        }
        self.note(|| format!("{name} sends {what}"));
        let patience = PATIENCE.min(fence.left_at(base.at(now)));
        let until = now.after(millis(patience));
        let binds = matches!(why, Why::Bind(_));
        self.dispatch(InFlight { replica, life, term, why, request, left: false, until });
        if let Some(fault) = self.freezes_at_bind.take_if(|_| binds) {
            self.freeze(replica, fault);
        }
    }

    /// Sends a read or a write of the Lease.
    pub fn send_lease(&mut self, replica: usize, attempt: u64, request: Request, until: Instant) {
        let life = self.replicas[replica].life;
        self.dispatch(InFlight { replica, life, term: 0, why: Why::Lease(attempt), request, left: false, until });
    }

    fn dispatch(&mut self, flight: InFlight) {
        let until = flight.until;
        let number = self.add_call(flight);
        let at = self.now.after(self.chance.below(3) as Moment);
        self.at(at, Happening::Leaves(number));
        self.at(until.max(self.now), Happening::GivesUp(number));
    }

    fn add_call(&mut self, flight: InFlight) -> u64 {
        self.called += 1;
        self.calls.insert(self.called, flight);
        self.called
    }

    /// A request leaves its process, if that is still there and its term too.
    pub fn leave(&mut self, number: u64) {
        let Some(flight) = self.calls.get_mut(&number) else { return };
        if !flight.is_of(&self.replicas[flight.replica]) {
            self.calls.remove(&number);
            return;
        }
        flight.left = true;
        let at = self.now.after(1 + self.chance.below(15) as Moment + self.slowness());
        self.at(at, Happening::Arrives(number));
    }

    /// A request arrives.
    pub fn arrive(&mut self, number: u64) {
        let Some(flight) = self.calls.get(&number).cloned() else { return };
        let asked = match &flight.why {
            Why::Bind(_) => Asked::Binds,
            Why::Lease(_) => Asked::Lease,
            Why::ReadBack(_) | Why::Say(..) | Why::Evict(_) => Asked::Everything,
        };
        let answer = if self.is_out() { Some(Answered::LostBefore) } else { self.answer_to(asked) };
        if let Some(answer) = answer {
            self.note(|| format!("request {number} is answered by {answer:?}"));
        }
        let takes_effect =
            matches!(answer, None | Some(Answered::TimeoutAfter) | Some(Answered::LostAfter) | Some(Answered::Silence));
        let said = if takes_effect { Some(self.carry_out_request(&flight.request)) } else { None };
        let reply = match (answer, said) {
            (None, Some(reply)) => Ok(reply),
            (Some(Answered::TooManyRequests), _) => Ok(refusal(429)),
            (Some(Answered::Conflict), _) => Ok(refusal(409)),
            (Some(Answered::Error), _) => Ok(refusal(500)),
            (Some(Answered::TimeoutBefore | Answered::TimeoutAfter), _) => Ok(refusal(504)),
            (Some(Answered::Silence), _) => return,
            (Some(Answered::LostBefore | Answered::LostAfter), _) | (None, None) => {
                Err(NoAnswer::Unknown("connection reset by peer".to_owned()))
            }
        };
        let at = self.now.after(1 + self.chance.below(15) as Moment);
        self.at(at, Happening::Answered(number, reply));
    }

    fn carry_out_request(&mut self, request: &Request) -> Reply {
        let now = self.now;
        match request {
            Request::Call(call) => {
                let (code, body) = self.api.call(now, call);
                self.note(|| format!("the API server answers {} {} with {code}", call.method, call.path));
                reply(code, &body)
            }
            Request::ReadLease => Reply::Lease(self.api.lease()),
            Request::WriteLease(record) => match self.api.write_lease(record.clone()) {
                Ok(record) => Reply::Lease(Some(record)),
                Err((code, body)) => reply(code, &body),
            },
        }
    }

    /// Takes a request out whose answer is there, or does not come any more; `None` where it means nothing by now.
    pub fn end_call(&mut self, number: u64) -> Option<InFlight> {
        let flight = self.calls.remove(&number)?;
        flight.is_of(&self.replicas[flight.replica]).then_some(flight)
    }
}

fn reply(code: u16, body: &Value) -> Reply {
    let code = StatusCode::from_u16(code).expect("the model answers with status codes");
    Reply::Answer(Answer { code, body: body.to_string().into_bytes() })
}

fn refusal(code: u16) -> Reply {
    let (code, body) = super::api::status(code, "out of order on purpose");
    reply(code, &body)
}
