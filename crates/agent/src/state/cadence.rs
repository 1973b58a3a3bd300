//! When to write what: seldom, and only what moved.
//!
//! | what | when |
//! |---|---|
//! | any report | 10 s after the last one at the earliest |
//! | `GPUNodeState` | when something moved by 1 %, else every 5 minutes |
//! | annotations | when the sum moved by 1 %, else every 30 minutes |
//! | after a failure | after 1 s, then twice as long each time up to a minute; always the newest |

use std::time::Duration;

use super::backoff::Backoff;
use super::document::Status;
use super::movement::{memory_moved, moved};

const PACE: Duration = Duration::from_secs(10);
const STATE_HEARTBEAT: Duration = Duration::from_secs(5 * 60);
const ANNOTATIONS_HEARTBEAT: Duration = Duration::from_secs(30 * 60);

/// A report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// The `GPUNodeState`.
    State,
    /// The node's annotations.
    Annotations,
}

/// What to do at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Write this.
    Write(Report),
    /// Nothing before this moment, if nothing moves until then.
    Until(Duration),
}

/// Which report was written when. Times are since any moment that stays the same.
#[derive(Debug, Clone, Default)]
pub struct Cadence {
    state: Track,
    annotations: Track,
    /// When anything was last written.
    last: Option<Duration>,
    /// Whether annotations were due when the state was last written.
    passed_over: bool,
}

/// One report's history.
#[derive(Debug, Clone, Default)]
struct Track {
    written: Option<(Duration, Status)>,
    backoff: Backoff,
}

impl Cadence {
    /// What is to be done now, if `newest` is what there is to say.
    pub fn next(&self, now: Duration, newest: &Status) -> Wait {
        let state = self.due(Report::State, newest);
        let annotations = self.due(Report::Annotations, newest);
        // The state comes first, but not twice while annotations are due.
        let both = state <= now && annotations <= now;
        let other = if both { self.passed_over } else { annotations < state };
        let (report, at) = if other { (Report::Annotations, annotations) } else { (Report::State, state) };
        if at <= now { Wait::Write(report) } else { Wait::Until(at) }
    }

    /// The moment from which on a report may and should be written.
    fn due(&self, report: Report, newest: &Status) -> Duration {
        let (track, heartbeat) = match report {
            Report::State => (&self.state, STATE_HEARTBEAT),
            Report::Annotations => (&self.annotations, ANNOTATIONS_HEARTBEAT),
        };
        let wanted = match &track.written {
            None => Duration::ZERO,
            Some((at, old)) if says_more(report, old, newest) => *at + PACE,
            Some((at, _)) => *at + heartbeat,
        };
        let pace = self.last.map_or(Duration::ZERO, |last| last + PACE);
        wanted.max(pace).max(track.backoff.until())
    }

    /// It was written.
    pub fn wrote(&mut self, report: Report, now: Duration, content: &Status) {
        self.passed_over = report == Report::State && self.due(Report::Annotations, content) <= now;
        self.last = Some(now);
        *self.track(report) = Track { written: Some((now, content.clone())), backoff: Backoff::default() };
    }

    /// It could not be written. What is written next is what is newest then.
    pub fn failed(&mut self, report: Report, now: Duration) {
        self.track(report).backoff.failed(now);
    }

    /// What is there is not what was written: it is written again.
    pub fn forget(&mut self, report: Report) {
        self.track(report).written = None;
    }

    fn track(&mut self, report: Report) -> &mut Track {
        match report {
            Report::State => &mut self.state,
            Report::Annotations => &mut self.annotations,
        }
    }
}

fn says_more(report: Report, old: &Status, new: &Status) -> bool {
    match report {
        Report::State => moved(old, new),
        Report::Annotations => {
            old.total_memory_mib != new.total_memory_mib
                || memory_moved(old.used_memory_mib, new.used_memory_mib, new.total_memory_mib)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::movement::tests::report;
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn with_used(mib: u64) -> Status {
        let mut status = report();
        status.used_memory_mib = mib;
        status.devices[0].used_memory_mib = Some(mib);
        status
    }

    /// Asks in every second what to do, and does it; what was written when.
    fn run(cadence: &mut Cadence, seconds: std::ops::Range<u64>, used: impl Fn(u64) -> u64) -> Vec<(u64, Report)> {
        let mut written = Vec::new();
        for second in seconds {
            let status = with_used(used(second));
            if let Wait::Write(report) = cadence.next(S(second), &status) {
                cadence.wrote(report, S(second), &status);
                written.push((second, report));
            }
        }
        written
    }

    #[test]
    fn at_rest_there_are_heartbeats() {
        use Report::{Annotations, State};
        let written = run(&mut Cadence::default(), 0..2000, |_| 10_000);
        let expected = [
            (0, State),
            (10, Annotations),
            (300, State),
            (600, State),
            (900, State),
            (1200, State),
            (1500, State),
            (1800, State),
            (1810, Annotations),
        ];
        assert_eq!(written, expected);
    }

    /// A number from 0 to `below`, another one for each seed.
    fn noise(seed: u64, below: u64) -> u64 {
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 33) % below
    }

    #[test]
    fn ten_thousand_agents_at_rest_write_less_than_fifty_times_a_second() {
        const AGENTS: u64 = 10_000;
        const HOUR: u64 = 3600;
        let mut writes = vec![0_u64; HOUR as usize];
        let mut resting = report();
        for agent in 0..AGENTS {
            let mut cadence = Cadence::default();
            // They look every ten seconds, and began within ten minutes.
            for second in (noise(agent, 600)..HOUR).step_by(10) {
                let seed = agent * HOUR + second;
                resting.devices[0].temperature_c = Some(31 + u32::try_from(noise(seed, 3)).unwrap());
                resting.devices[0].power_w = Some(60.0 + noise(seed + 1, 60) as f64 / 10.0);
                resting.devices[0].used_memory_mib = Some(10_000 + noise(seed + 2, 20));
                if let Wait::Write(report) = cadence.next(S(second), &resting) {
                    cadence.wrote(report, S(second), &resting);
                    writes[second as usize] += 1;
                }
            }
        }
        let settled = &writes[1200..];
        let mean = settled.iter().sum::<u64>() as f64 / settled.len() as f64;
        let most = settled.iter().max().unwrap();
        println!("{AGENTS} agents at rest: {mean:.1} writes a second, {most} in the busiest one");
        assert!(mean < 50.0, "{mean}");
    }

    #[test]
    fn what_moves_all_the_time_is_written_every_ten_seconds_in_turn() {
        let written = run(&mut Cadence::default(), 0..100, |second| second * 1000);
        assert_eq!(written.iter().map(|(at, _)| *at).collect::<Vec<_>>(), (0..100).step_by(10).collect::<Vec<_>>());
        let states = written.iter().filter(|(_, report)| *report == Report::State).count();
        assert_eq!(states, 5, "{written:?}");
    }

    #[test]
    fn what_moves_by_less_than_a_hundredth_is_not_written() {
        let mut cadence = Cadence::default();
        run(&mut cadence, 0..20, |_| 10_000);
        assert_eq!(run(&mut cadence, 20..200, |_| 10_799), []);
        let written = run(&mut cadence, 200..250, |_| 10_800);
        assert_eq!(written, [(200, Report::State), (210, Report::Annotations)]);
    }

    #[test]
    fn failures_are_waited_out_with_the_newest_report() {
        let mut cadence = Cadence::default();
        cadence.wrote(Report::Annotations, S(0), &with_used(10_000));
        let mut tries = Vec::new();
        for second in 10..300 {
            if cadence.next(S(second), &with_used(10_000)) == Wait::Write(Report::State) {
                tries.push(second);
                cadence.failed(Report::State, S(second));
            }
        }
        assert_eq!(tries, [10, 11, 13, 17, 25, 41, 73, 133, 193, 253]);
        let newest = with_used(40_000);
        assert_eq!(cadence.next(S(320), &newest), Wait::Write(Report::State));
        cadence.wrote(Report::State, S(320), &newest);
        cadence.failed(Report::State, S(400));
        assert_eq!(cadence.state.backoff.until(), S(401), "the pause begins anew");
    }

    #[test]
    fn one_report_that_cannot_be_written_does_not_hold_the_other_up() {
        let mut cadence = Cadence::default();
        cadence.failed(Report::State, S(0));
        assert_eq!(cadence.next(S(0), &report()), Wait::Write(Report::Annotations));
    }

    #[test]
    fn it_says_until_when_there_is_nothing_to_do() {
        let mut cadence = Cadence::default();
        assert_eq!(cadence.next(S(5), &report()), Wait::Write(Report::State));
        cadence.wrote(Report::State, S(5), &report());
        assert_eq!(cadence.next(S(5), &report()), Wait::Until(S(15)));
        cadence.wrote(Report::Annotations, S(15), &report());
        assert_eq!(cadence.next(S(15), &report()), Wait::Until(S(305)));
        cadence.forget(Report::State);
        assert_eq!(cadence.next(S(15), &report()), Wait::Until(S(25)));
    }
}
