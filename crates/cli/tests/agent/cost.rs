//! What an agent costs its node: memory and CPU, with eight cards and a hundred processes on them.

use std::fs;
use std::time::Duration;

use gpu_scheduler_nvml_mock::describe::{Megabytes, Process};
use gpu_scheduler_nvml_mock::{Gpu, Node};

use super::bed::Bed;

/// For how long it is looked at.
const WHILE: Duration = Duration::from_secs(60);

/// User and system time of a process.
fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    // Ticks are of 10 ms.
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

/// Memory of a process, MiB: what is its own, and all that is resident.
fn memory(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    (of("RssAnon:"), of("VmRSS:"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: make bench-agent"]
async fn an_agent_at_rest() {
    let mut bed = Bed::with(Node::with((0..8).map(|_| Gpu::of("A100-SXM4-80GB")).collect())).await;
    bed.change_cards(|node| {
        let cards = node.gpus.len();
        for n in 0..100 {
            let id = format!("/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/{n:064x}");
            let process = Process { cgroup: Some(id), ..Process::computing(5000 + n, Megabytes(64)) };
            node.gpus[n as usize % cards].processes.push(process);
        }
    });
    bed.agent.take().unwrap().kill();
    bed.offers("nvidia.com/gpu", 0).await;
    bed.run_agent(&["--interval", "10"], &[]);
    bed.offers("nvidia.com/gpu", 8).await;
    let pid = bed.agent.as_ref().unwrap().pid();
    let before = cpu(pid);
    tokio::time::sleep(WHILE).await;
    let share = (cpu(pid) - before).as_secs_f64() / WHILE.as_secs_f64();
    let (own, resident) = memory(pid);
    println!(
        "an agent at rest: {:.2} % of a core, {own} MiB of its own memory, {resident} MiB resident",
        share * 100.0
    );
}
