//! Plays many schedules, and tells of one that fails.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gpu_scheduler_sim::in_parallel;

use super::broken::Broken;
use super::plan::Plan;
use super::settings::{Settings, again};
use super::shrink::shrink;
use super::sim::Sim;

/// Schedules that are played to make one smaller.
const TRIES: usize = 400;
/// Lines of a trace that are told.
const LINES: usize = 120;

/// A schedule that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The schedule, as small as it was made.
    pub plan: Plan,
    /// The rule.
    pub broken: Broken,
    /// What happened.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} breaks a rule ({}): {}", self.plan.seed, self.broken.rule(), self.broken)?;
        writeln!(f, "again: {}", again(self.plan.seed, &self.plan.parts()))?;
        writeln!(f, "the smallest schedule found that breaks the same rule:\n{}", self.plan)?;
        let left_out = self.trace.len().saturating_sub(LINES);
        writeln!(f, "what happened, the last {} of {} lines:", self.trace.len() - left_out, self.trace.len())?;
        self.trace[left_out..].iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Plays a schedule: the rule that it breaks, if it breaks one.
pub fn play(plan: &Plan) -> Option<Broken> {
    played(plan, false).0
}

/// Plays a schedule, and tells all that happens.
pub fn trace(plan: &Plan) -> (Option<Broken>, Vec<String>) {
    played(plan, true)
}

fn played(plan: &Plan, traced: bool) -> (Option<Broken>, Vec<String>) {
    let mut sim = Sim::new(plan.clone(), traced);
    let broken = match catch_unwind(AssertUnwindSafe(|| sim.play())) {
        Ok(broken) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Broken::Panicked(text.unwrap_or_default()))
        }
    };
    (broken, sim.take_trace())
}

/// Plays schedules on all cores, up to the first that fails, and makes that one smaller. How many were played, and what
/// failed.
pub fn run(settings: &Settings) -> (u64, Option<Failure>) {
    let (first, count, parts) = match settings {
        Settings::Many { count } => (0, *count, None),
        Settings::One { seed, parts } => (*seed, 1, parts.as_ref()),
    };
    let plan = |at: u64| {
        let plan = Plan::from_seed(first + at);
        match parts {
            Some(parts) => plan.only(parts),
            None => plan,
        }
    };
    let failed = AtomicBool::new(false);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let found = in_parallel(usize::try_from(count).unwrap_or(usize::MAX), threads, |at| {
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        let plan = plan(at as u64);
        let broken = play(&plan)?;
        failed.store(true, Ordering::Relaxed);
        Some((plan, broken))
    });
    let failure = found.into_iter().flatten().next().map(|(plan, broken)| smallest(&plan, &broken));
    (count, failure)
}

fn smallest(plan: &Plan, broken: &Broken) -> Failure {
    let plan = shrink(plan, broken.rule(), TRIES, play);
    let (broken, trace) = match trace(&plan) {
        (Some(broken), trace) => (broken, trace),
        (None, trace) => (broken.clone(), trace),
    };
    Failure { plan, broken, trace }
}
