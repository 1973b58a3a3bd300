//! What an agent costs its node: memory and CPU, with eight cards and a hundred processes on them.

use std::time::Duration;

use gpu_scheduler_nvml_mock::describe::{Megabytes, Process};
use gpu_scheduler_nvml_mock::{Gpu, Node};
use gpu_scheduler_testbed::usage::{memory_mib, processor_time};

use super::bed::Bed;

/// For how long it is looked at.
const WHILE: Duration = Duration::from_secs(60);

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
    let before = processor_time(pid);
    tokio::time::sleep(WHILE).await;
    let share = (processor_time(pid) - before).as_secs_f64() / WHILE.as_secs_f64();
    let (own, resident) = (memory_mib(pid, "RssAnon"), memory_mib(pid, "VmRSS"));
    println!(
        "an agent at rest: {:.2} % of a core, {own} MiB of its own memory, {resident} MiB resident",
        share * 100.0
    );
}
