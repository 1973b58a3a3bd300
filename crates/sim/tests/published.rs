//! The published policies, replayed in the published order, against the published means.
//!
//! Needs the whole trace: set `OPENB` to the folder that holds `nodes.csv`, `pods_*.csv`, `arrivals/` and
//! `published_alloc_mean.csv`. Skipped, loudly, without it. `OPENB_SEEDS` (default 10) shortens a quick look.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::openb::{Arrivals, TraceNode, TracePod, read_nodes, read_pods};
use gpu_scheduler_sim::replay::Replay;

const VARIANTS: [&str; 5] = ["default", "cpu100", "gpushare60", "gpuspec33", "multigpu30"];
const POLICIES: [(Policy, &str); 4] = [
    (Policy::BestFit, "BestFit"),
    (Policy::Packing, "GpuPacking"),
    (Policy::Clustering, "GpuClustering"),
    (Policy::Fgd, "FGD"),
];
const LOADS: [u64; 6] = [80, 90, 95, 100, 110, 130];
const TOLERANCE: f64 = 0.05;

struct Job {
    variant: usize,
    policy: usize,
    seed: u64,
}

#[test]
fn published_means_are_reproduced() {
    let Some(folder) = std::env::var_os("OPENB").map(PathBuf::from) else {
        println!("SKIPPED: set OPENB to the openb trace's folder to compare with the published figures");
        return;
    };
    let seeds: u64 = std::env::var("OPENB_SEEDS").map_or(10, |s| s.parse().expect("OPENB_SEEDS is a number"));
    let nodes = read_nodes(&folder.join("nodes.csv")).unwrap();
    let pods: Vec<Vec<TracePod>> =
        VARIANTS.iter().map(|v| read_pods(&folder.join(format!("pods_{v}.csv"))).unwrap()).collect();
    let published = published(&folder.join("published_alloc_mean.csv"));
    let mut jobs = Vec::new();
    for variant in 0..VARIANTS.len() {
        for policy in 0..POLICIES.len() {
            jobs.extend((42..42 + seeds).map(|seed| Job { variant, policy, seed }));
        }
    }
    let results = in_parallel(&jobs, |job| run(&folder, &nodes, &pods[job.variant], job));
    let mut worst: f64 = 0.0;
    let mut wrong = Vec::new();
    for (v, variant) in VARIANTS.iter().enumerate() {
        for (p, (policy, their_name)) in POLICIES.iter().enumerate() {
            let ours = jobs.iter().zip(&results).filter(|(j, _)| j.variant == v && j.policy == p);
            let ours: Vec<&[f64; 6]> = ours.map(|(_, r)| r).collect();
            let means: Vec<f64> =
                (0..6).map(|at| ours.iter().map(|r| r[at]).sum::<f64>() / ours.len() as f64).collect();
            let theirs = &published[&(variant.to_string(), their_name.to_string())];
            println!("{variant:<11} {:<10} ours {means:.3?} published {theirs:.3?}", policy.name());
            for (at, load) in LOADS.iter().enumerate() {
                let difference = means[at] - theirs[at];
                worst = worst.max(difference.abs());
                if difference.abs() > TOLERANCE {
                    wrong.push(format!(
                        "{variant} {} at {load} %: {:.3} against {:.3}",
                        policy.name(),
                        means[at],
                        theirs[at]
                    ));
                }
            }
        }
    }
    println!("largest difference over {} runs: {worst:.4} points", jobs.len());
    // Fewer seeds have another mean: then only look.
    assert!(wrong.is_empty() || seeds < 10, "beyond {TOLERANCE} points:\n{}", wrong.join("\n"));
}

fn run(folder: &Path, nodes: &[TraceNode], pods: &[TracePod], job: &Job) -> [f64; 6] {
    let order = folder.join(format!("arrivals/{}.{}.txt", VARIANTS[job.variant], job.seed));
    let arrivals = Arrivals::read(&order, pods, nodes).unwrap();
    let policy = POLICIES[job.policy].0;
    let run = Replay { nodes, pods, arrivals: &arrivals, policy, seed: Some(job.seed) }.run(|_| {});
    LOADS.map(|load| run.allocated_at(load).expect("the order reaches 130 %"))
}

/// Every job's result, in order, on as many threads as there are cores.
fn in_parallel<R: Send + Clone>(jobs: &[Job], work: impl Fn(&Job) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut results: Vec<Option<R>> = vec![None; jobs.len()];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(at) else { return done };
                        done.push((at, work(job)));
                    }
                })
            })
            .collect();
        for worker in workers {
            for (at, result) in worker.join().expect("a replay does not panic") {
                results[at] = Some(result);
            }
        }
    });
    results.into_iter().map(|r| r.expect("every job was taken")).collect()
}

/// Variant and policy to the means at [`LOADS`].
fn published(path: &Path) -> BTreeMap<(String, String), Vec<f64>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let column = |load: u64| headers.iter().position(|h| h == load.to_string()).unwrap();
    let columns = LOADS.map(column);
    let row = |record: csv::StringRecord| {
        let means = columns.iter().map(|at| record[*at].parse().unwrap()).collect();
        ((record[0].to_owned(), record[1].to_owned()), means)
    };
    reader.records().map(|r| row(r.unwrap())).collect()
}
