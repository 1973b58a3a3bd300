//! A replica's part in the election.

use gpu_scheduler_cluster::exchange::NoAnswer;
use gpu_scheduler_cluster::live::{Purpose, Record, Tenure, Times, Wish};

use super::calls::{Reply, Request};
use super::clock::millis;
use super::plan::Kind;
use super::replica::{Attempt, Term};
use super::sim::{Own, Sim};
use super::watch::Step;

impl Sim {
    /// Begins an attempt at the Lease.
    pub fn elect(&mut self, replica: usize) {
        let (now, base, times) = (self.now, self.base, Times::default());
        let from = &mut self.replicas[replica];
        if from.attempt.is_some() {
            return;
        }
        let (purpose, patience) = match &from.term {
            Some(term) => (Purpose::Renew, term.tenure.patience(base.at(now))),
            None => (Purpose::Acquire, times.to_acquire()),
        };
        from.attempts += 1;
        let number = from.attempts;
        let until = now.after(millis(patience));
        from.attempt = Some(Attempt { number, sent: now, until, purpose });
        self.own(replica, until, Own::AttemptEnds(number));
        self.send_lease(replica, number, Request::ReadLease, until);
    }

    /// An answer about the Lease.
    pub fn lease_answered(&mut self, replica: usize, number: u64, request: &Request, reply: Result<Reply, NoAnswer>) {
        let now = self.base.at(self.now);
        let from = &mut self.replicas[replica];
        let Some(attempt) = from.attempt.filter(|attempt| attempt.number == number) else { return };
        let record = match reply {
            Ok(Reply::Lease(record)) => record,
            Ok(Reply::Answer(answer)) => return self.attempt_ends(replica, number, Err(answer.why())),
            Err(error) => return self.attempt_ends(replica, number, Err(error.to_string())),
        };
        match request {
            Request::ReadLease => match from.election.wish(now, attempt.purpose, record) {
                None => self.attempt_ends(replica, number, Ok(false)),
                Some(wish) => self.write_lease(replica, attempt, wish),
            },
            Request::WriteLease(_) | Request::Call(_) => {
                from.election.look(now, record);
                self.attempt_ends(replica, number, Ok(true));
            }
        }
    }

    fn write_lease(&mut self, replica: usize, attempt: Attempt, wish: Wish) {
        let Attempt { number, until, .. } = attempt;
        let from = &self.replicas[replica];
        let (transitions, version) = match wish {
            Wish::Create => (0, String::new()),
            Wish::Take(before) => (before.transitions + 1, before.version),
            Wish::Renew(before) => (before.transitions, before.version),
        };
        // Any text that no other renewal has does.
        let renewed = format!("{} {number}", self.now.0);
        let record = Record { holder: from.identity(), lease: Times::default().lease, renewed, transitions, version };
        self.send_lease(replica, number, Request::WriteLease(record), until);
    }

    /// An attempt came to its end: whether the Lease is ours, or an error.
    pub fn attempt_ends(&mut self, replica: usize, number: u64, answer: Result<bool, String>) {
        let (now, base, times) = (self.now, self.base, Times::default());
        let from = &mut self.replicas[replica];
        let Some(attempt) = from.attempt.take_if(|attempt| attempt.number == number) else { return };
        let won = answer == Ok(true);
        let pause = match (&mut from.term, attempt.purpose) {
            (Some(term), Purpose::Renew) => {
                let holder = from.election.holder().to_owned();
                match term.tenure.attempted(base.at(now), base.at(attempt.sent), answer, &holder) {
                    Ok(()) => term.tenure.pause(base.at(now)),
                    Err(lost) => {
                        from.term = None;
                        self.note(|| format!("r{replica} leads no more: {lost}"));
                        std::time::Duration::ZERO
                    }
                }
            }
            _ if won => {
                from.terms += 1;
                let tenure = Tenure::begin(times, from.fence.clone(), base.at(attempt.sent));
                let pause = tenure.pause(base.at(now));
                from.term = Some(Term::new(from.terms, tenure, now));
                self.begin_term(replica);
                pause
            }
            _ => times.retry,
        };
        self.own(replica, now.after(millis(pause)), Own::Elect);
    }

    fn begin_term(&mut self, replica: usize) {
        self.note(|| format!("r{replica} leads"));
        for kind in Kind::ALL {
            self.own(replica, self.now.after(1), Own::Watch(kind, Step::List));
        }
    }
}
