//! What is random in these tests, and how often things happen.

use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;

use gpu_scheduler_sim::random::SplitMix;

/// Random numbers of one test.
pub struct Chance(SplitMix);

impl Chance {
    /// By `FAULT_SEED`, or by a seed that differs each time. It is printed, and cargo shows it of a test that fails.
    pub fn new() -> Self {
        // The standard library seeds its maps by the system's random numbers.
        let seed = number("FAULT_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
        // The thread of a test has its name.
        println!("FAULT_SEED={seed} repeats {}", thread::current().name().unwrap_or("this"));
        Self(SplitMix(seed))
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    /// True in so many of a hundred draws.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// So many numbers below `n`, in order.
    pub fn points(&mut self, count: usize, n: usize) -> Vec<usize> {
        let mut points: Vec<usize> = (0..count).map(|_| self.below(n)).collect();
        points.sort_unstable();
        points
    }

    /// In another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// How often a scheduler is killed.
pub fn kills() -> usize {
    number("FAULT_KILLS").map_or(3, |kills| usize::try_from(kills).expect("a number of kills"))
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number; give a whole one")))
}
