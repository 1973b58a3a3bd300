//! Schedules of faults from seeds: whatever goes wrong in whatever order, no rule is broken. And rules are broken where they
//! should be, when a fault is planted into what is tested.
//!
//! `SCHEDULES=n` plays more of them, `SCHEDULE_SEED=n` one alone ([docs/schedules.md](../../../docs/schedules.md)).

use gpu_scheduler_testbed::schedules::{Plan, Settings, run, trace};

/// Schedules that are played. Of what one costs: docs/schedules.md.
const SCHEDULES: u64 = 140_000;

#[test]
fn no_schedule_breaks_a_rule() {
    let settings = Settings::from_environment(SCHEDULES).unwrap_or_else(|error| panic!("{error}"));
    let began = std::time::Instant::now();
    let (count, failure) = run(&settings);
    println!("{count} schedules in {:?}", began.elapsed());
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut lines = 0;
    for seed in 0..50 {
        let plan = Plan::from_seed(seed);
        assert_eq!(plan, Plan::from_seed(seed));
        let (first, second) = (trace(&plan), trace(&plan));
        assert_eq!(first, second, "seed {seed}");
        lines += first.1.len();
    }
    assert!(lines > 5_000, "something happens: {lines} lines");
}

/// A model in which nothing goes wrong would pass as well.
#[test]
fn what_schedules_are_about_happens_in_them() {
    let mut missing: Vec<&str> = vec![
        "410 for",
        "TooManyRequests",
        "Conflict",
        "TimeoutAfter",
        "LostAfter",
        "Silence",
        "Outage begins",
        "is stopped",
        "leads no more",
        "may not send",
        "read back",
        "with 409",
        "evict default/",
        "GPUOvercommitted",
        "nominate default/",
        "has no allocation record",
        "MIG-",
        "start together",
    ];
    for seed in 0..2_000 {
        if missing.is_empty() {
            return;
        }
        let (_, lines) = trace(&Plan::from_seed(seed));
        missing.retain(|word| !lines.iter().any(|line| line.contains(word)));
    }
    panic!("in no schedule: {missing:?}");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use gpu_scheduler_cluster::planted::{Bug, plant};
    use gpu_scheduler_testbed::schedules::{Plan, play};

    /// Schedules within which each planted fault is found.
    const WITHIN: u64 = 2_000;

    #[test]
    fn each_planted_fault_is_found_and_without_it_the_same_schedule_breaks_no_rule() {
        for bug in Bug::ALL {
            plant(Some(bug));
            let found = (0..WITHIN).find_map(|seed| Some((seed, play(&Plan::from_seed(seed))?)));
            plant(None);
            let (seed, broken) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {WITHIN} schedules"));
            println!("{bug:?}: seed {seed}, {} ({broken})", broken.rule());
            for seed in 0..=seed {
                assert_eq!(play(&Plan::from_seed(seed)), None, "seed {seed} without {bug:?}");
            }
        }
    }
}
