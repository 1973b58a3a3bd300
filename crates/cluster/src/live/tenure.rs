//! A term as its holder sees it: when to renew, and whether it lasts. No I/O: time and answers are arguments.

use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use super::election::Times;
use super::fence::Fence;

/// Why a term came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Lost {
    /// Somebody else holds the Lease.
    #[error("{0} holds the lease now")]
    Taken(String),
    /// It could not be renewed in time.
    #[error("the lease could not be renewed within {0:?}; last error: {1}")]
    NotRenewed(Duration, String),
}

/// A term from its first write of the Lease to its end.
#[derive(Debug)]
pub struct Tenure {
    times: Times,
    fence: Fence,
    last_error: String,
}

impl Tenure {
    /// Begins with the answer to a write that was sent at `sent`: from then on counts how long the others respect it.
    pub fn begin(times: Times, fence: Fence, sent: Instant) -> Self {
        fence.extend(sent + times.renew_deadline);
        Self { times, fence, last_error: "none".to_owned() }
    }

    /// How long to wait before the next renewal.
    pub fn pause(&self, now: Instant) -> Duration {
        self.times.retry.min(self.fence.left_at(now))
    }

    /// How long a renewal that is sent now may take.
    pub fn patience(&self, now: Instant) -> Duration {
        self.times.patience(self.fence.left_at(now))
    }

    /// The end of an attempt that began at `sent`: whether the Lease is still ours, or an error. `holder` is who holds
    /// it, as last seen. The fence is closed where the term has come to its end.
    pub fn attempted(
        &mut self,
        now: Instant,
        sent: Instant,
        answer: Result<bool, String>,
        holder: &str,
    ) -> Result<(), Lost> {
        // Once closed it stays closed: what was assumed in a term that has ended must not act, even if nobody else
        // has taken the lease meanwhile.
        if !self.fence.is_open_at(now) {
            self.fence.close();
            return Err(Lost::NotRenewed(self.times.renew_deadline, self.last_error.clone()));
        }
        match answer {
            Ok(true) => self.fence.extend(sent + self.times.renew_deadline),
            Ok(false) => {
                self.fence.close();
                return Err(Lost::Taken(holder.to_owned()));
            }
            Err(error) => self.last_error = error,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_lasts_as_long_as_it_is_renewed_in_time() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let renewed = || Ok(true);
        let failed = || Err("503".to_owned());
        for (attempts, lost) in [
            (vec![(2, 2, renewed()), (11, 11, renewed()), (20, 20, renewed())], None),
            // It counts from when it was sent, not from when it was answered.
            (vec![(2, 9, renewed()), (9, 12, renewed())], Some("10s; last error: none")),
            (vec![(2, 3, failed()), (9, 10, renewed())], Some("10s; last error: 503")),
            // Late, although it was taken: nobody knows what happened in between.
            (vec![(9, 11, renewed())], Some("10s; last error: none")),
            (vec![(2, 2, Ok(false))], Some("b holds the lease now")),
        ] {
            let fence = Fence::closed_at(start);
            let mut tenure = Tenure::begin(Times::default(), fence.clone(), start);
            let mut end = None;
            for (sent, answered, answer) in attempts.clone() {
                end = tenure.attempted(at(answered), at(sent), answer, "b").err();
                if end.is_some() {
                    break;
                }
            }
            let text = end.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(
                text.ends_with(lost.unwrap_or_default()) && end.is_some() == lost.is_some(),
                "{attempts:?}: {text}"
            );
            if end.is_some() {
                assert!(!fence.is_open_at(start), "{attempts:?}: closed whatever the time");
            }
        }
    }
}
