//! Who leads, decided as client-go does: whoever holds the Lease, until it has not changed for as long as it
//! says. That time is measured by the observer's own clock, so clocks need not agree.

use std::time::Duration;

use tokio::time::Instant;

/// Times of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// For how long others respect a Lease that is not renewed.
    pub lease: Duration,
    /// After how long without a renewal the leader gives up by itself; less than `lease`.
    pub renew_deadline: Duration,
    /// How often to try.
    pub retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

impl Times {
    /// How long an attempt to begin a term may take.
    pub fn to_acquire(&self) -> Duration {
        self.renew_deadline
    }

    /// How long an attempt may take that has to be through `within` this time.
    pub fn patience(&self, within: Duration) -> Duration {
        within.min((self.retry * 2).max(self.renew_deadline / 2))
    }
}

/// A Lease as it stands on the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Who holds it; empty: nobody.
    pub holder: String,
    /// For how long without a change others respect it.
    pub lease: Duration,
    /// When the holder says that it renewed it: compared, never computed with.
    pub renewed: String,
    /// How often it changed hands.
    pub transitions: i32,
    /// Version of the object, the precondition of a write.
    pub version: String,
}

/// What to do about a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// There is none: create it.
    Create,
    /// It is free: take it, if it is still this version.
    Take(Record),
    /// It is ours: renew it, if it is still this version.
    Renew(Record),
}

/// What a write to the Lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To begin a term.
    Acquire,
    /// To go on with this one.
    Renew,
}

/// One candidate's view.
#[derive(Debug)]
pub struct Election {
    identity: String,
    /// How long a Lease is respected that does not say it.
    lease: Duration,
    observed: Option<(Record, Instant)>,
}

impl Election {
    /// A candidate.
    pub fn new(identity: String, lease: Duration) -> Self {
        Self { identity, lease, observed: None }
    }

    /// What to do, having seen this at `now`; `None` while somebody else holds it.
    pub fn look(&mut self, now: Instant, current: Option<Record>) -> Option<Wish> {
        let Some(record) = current else {
            self.observed = None;
            return Some(Wish::Create);
        };
        // Another version of the object is no sign of life: anybody may write a label.
        let same = |known: &Record| Record { version: record.version.clone(), ..known.clone() } == record;
        if !self.observed.as_ref().is_some_and(|(known, _)| same(known)) {
            self.observed = Some((record.clone(), now));
        }
        let lease = if record.lease.is_zero() { self.lease } else { record.lease };
        let since = self.observed.as_ref().map_or(now, |(_, since)| *since);
        if record.holder == self.identity {
            Some(Wish::Renew(record))
        } else if record.holder.is_empty() || now >= since + lease {
            Some(Wish::Take(record))
        } else {
            None
        }
    }

    /// What to write, having seen this at `now`; `None` where there is nothing to win.
    pub fn wish(&mut self, now: Instant, purpose: Purpose, current: Option<Record>) -> Option<Wish> {
        // A lease that is free, or gone, belongs to a new term.
        self.look(now, current).filter(|wish| purpose == Purpose::Acquire || matches!(wish, Wish::Renew(_)))
    }

    /// Who holds the Lease, as last seen.
    pub fn holder(&self) -> &str {
        self.observed.as_ref().map_or("", |(record, _)| &record.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: &str) -> Record {
        let lease = Duration::from_secs(15);
        Record { holder: holder.into(), lease, renewed: renewed.into(), transitions: 1, version: renewed.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_renewed_by_what_is_ours_alone() {
        let now = Instant::now();
        for (seen, acquires, renews) in [
            (None, true, false),
            (Some(record("", "1970")), true, false),
            (Some(record("a", "1970")), false, false),
            (Some(record("b", "1970")), true, true),
        ] {
            let writes = |purpose| {
                let mut election = Election::new("b".into(), Duration::from_secs(15));
                election.wish(now, purpose, seen.clone()).is_some()
            };
            assert_eq!((writes(Purpose::Acquire), writes(Purpose::Renew)), (acquires, renews), "{seen:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_free_when_it_did_not_change_for_its_time_by_our_own_clock() {
        let mut election = Election::new("b".into(), Duration::from_secs(15));
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        for (second, seen, expected) in [
            (0, None, Some(Wish::Create)),
            // However old it says it is, it is new to us.
            (1, Some(record("a", "1970")), None),
            (15, Some(record("a", "1970")), None),
            (16, Some(record("a", "1970")), Some(Wish::Take(record("a", "1970")))),
            // It was renewed after all.
            (17, Some(record("a", "1971")), None),
            (31, Some(record("a", "1971")), None),
            (32, Some(record("a", "1971")), Some(Wish::Take(record("a", "1971")))),
            (33, Some(record("b", "1972")), Some(Wish::Renew(record("b", "1972")))),
            (99, Some(record("b", "1972")), Some(Wish::Renew(record("b", "1972")))),
            // Given back on purpose.
            (100, Some(record("", "1973")), Some(Wish::Take(record("", "1973")))),
        ] {
            assert_eq!(election.look(at(second), seen), expected, "at {second} s");
        }
    }
}
