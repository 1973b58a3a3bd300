//! `gpu-scheduler-bench`: fills clusters of growing size with pods of the openb trace and times every decision.
//!
//! Absolute times depend on the machine; the ratios of one run do not.

mod allocator;
mod fill;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::openb::{TracePod, read_pods};

use fill::{Fill, Outcome};

#[derive(Debug, Parser)]
struct Args {
    /// Nodes of the clusters, of 8 cards each
    #[arg(long, value_delimiter = ',', default_value = "1000,5000,20000,100000")]
    nodes: Vec<usize>,
    /// Pods of the openb trace
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/data/openb-excerpt/pods.csv"))]
    pods: PathBuf,
    /// Policy
    #[arg(long, default_value = "shadow-price")]
    policy: Policy,
    /// Fill until this part of the cards is allocated, in percent
    #[arg(long, default_value_t = 95)]
    fill: u64,
    /// Decisions of the comparison with classes off
    #[arg(long, default_value_t = 300)]
    sample: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let pods = read_pods(&args.pods).context("the pods of the benchmark")?;
    println!("policy {}, filled from empty to {} %", args.policy, args.fill);
    println!(
        "{:>8} {:>9} {:>11} {:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "nodes", "pods", "decisions/s", "p50 us", "p99 us", "worst us", "poll us", "late p50", "B/pod", "B/node"
    );
    let mut outcomes = Vec::new();
    for nodes in &args.nodes {
        let outcome = Fill { nodes: *nodes, policy: args.policy, percent: args.fill, pods: &pods }.run();
        print(&outcome);
        outcomes.push(outcome);
    }
    if let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) {
        println!(
            "\na decision at {} nodes takes {:.2} x one at {} nodes (mean), {:.2} x (median)",
            last.nodes,
            first.per_second / last.per_second,
            first.nodes,
            last.p50_us / first.p50_us
        );
    }
    compare_classes(&args, &pods);
    Ok(())
}

fn print(o: &Outcome) {
    println!(
        "{:>8} {:>9} {:>11.0} {:>9.1} {:>9.1} {:>10.0} {:>10.0} {:>10.1} {:>9} {:>9}",
        o.nodes,
        o.pods,
        o.per_second,
        o.p50_us,
        o.p99_us,
        o.worst_us,
        o.worst_poll_us,
        o.late_p50_us,
        o.bytes_per_pod,
        o.bytes_per_node
    );
}

/// The same pods on the same half-full cluster, with evaluations kept by class and without.
fn compare_classes(args: &Args, pods: &[TracePod]) {
    let nodes = args.nodes.first().copied().unwrap_or(1000);
    let fill = Fill { nodes, policy: args.policy, percent: 50, pods };
    let (on, off) = (fill.sample(args.sample, true), fill.sample(args.sample, false));
    println!(
        "classes on against off, {} decisions at {nodes} nodes half full: {on:.1} us against {off:.1} us, {:.0} x",
        args.sample,
        off / on
    );
}
