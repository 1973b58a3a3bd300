//! Schedules of faults from seeds: whatever goes wrong in whatever order, no rule is broken.
//!
//! `SCHEDULES=n` plays more of them, `SCHEDULE_SEED=n` one alone.

use gpu_scheduler_testbed::schedules::{Plan, Settings, run, trace};

/// Schedules that are played.
const SCHEDULES: u64 = 200;

#[test]
fn no_schedule_breaks_a_rule() {
    let settings = Settings::from_environment(SCHEDULES).expect("numbers");
    let began = std::time::Instant::now();
    let (count, failure) = run(&settings);
    println!("{count} schedules in {:?}", began.elapsed());
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let plan = Plan::from_seed(seed);
        assert_eq!(plan, Plan::from_seed(seed));
        let (first, second) = (trace(&plan), trace(&plan));
        assert!(first.1.len() > 50, "seed {seed}: something happens");
        assert_eq!(first, second, "seed {seed}");
    }
}
