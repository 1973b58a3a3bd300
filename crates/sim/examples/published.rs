//! Compares policies with the published means: `published DIR [VARIANT…]`.
use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::openb::{Arrivals, read_nodes, read_pods};
use gpu_scheduler_sim::replay::Replay;
use std::path::Path;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(&args[1]);
    let nodes = read_nodes(&dir.join("nodes.csv")).unwrap();
    let seeds: u64 = args[2].parse().unwrap();
    for variant in args[3].split(',') {
        let pods = read_pods(&dir.join(format!("pods_{variant}.csv"))).unwrap();
        for policy in args[4].split(',') {
            let policy: Policy = policy.parse().unwrap();
            let mut sums = [0.0; 6];
            let mut d = Default::default();
            for seed in 42..42 + seeds {
                let arrivals = Arrivals::read(&dir.join(format!("arrivals/{variant}.{seed}.txt")), &pods, &nodes).unwrap();
                let run = Replay { nodes: &nodes, pods: &pods, arrivals: &arrivals, policy, seed: Some(seed) }.run(|_| {});
                for (s, l) in sums.iter_mut().zip([80, 90, 95, 100, 110, 130]) {
                    *s += run.allocated_at(l).unwrap() / seeds as f64;
                }
                d = run.decisions;
            }
            println!("{variant} {policy} {sums:.3?} {d:?}");
        }
    }
}
