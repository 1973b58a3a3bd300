//! What a round costs: CPU time of looking at eight described cards with a hundred processes.
//!
//! `cargo run --release -p gpu-scheduler-agent --example round`. The described library's own time is in it; the
//! driver's would be instead.
#![allow(clippy::unwrap_used, reason = "whoever runs it sees the panic")]

use std::fs;
use std::time::{Duration, Instant};

use gpu_scheduler_agent::checkpoint::Listed;
use gpu_scheduler_agent::collect::{CollectOptions, Collector};
use gpu_scheduler_agent::health::{DEFAULT_QUIET, XidPolicy};
use gpu_scheduler_agent::inventory::DeviceUuid;
use gpu_scheduler_agent::resources::{DeviceId, ResourceName};
use gpu_scheduler_nvml_mock::describe::{Megabytes, Process};
use gpu_scheduler_nvml_mock::{Gpu, Installation, Node};

const CARDS: u32 = 8;
const PROCESSES: u32 = 100;
const ROUNDS: u32 = 500;

fn main() {
    let gpus = (0..CARDS).map(|card| {
        let mine = (0..PROCESSES).filter(|process| process % CARDS == card);
        let process = |n: u32| Process {
            cgroup: Some(format!("/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/{n:064x}")),
            ..Process::computing(1000 + n, Megabytes(64))
        };
        Gpu { processes: mine.map(process).collect(), ..Gpu::of("A100-SXM4-80GB") }
    });
    let installation = Installation::new(&Node::with(gpus.collect())).unwrap();
    let roots = tempfile::tempdir().unwrap();
    let (sysfs, procfs) = (roots.path().join("sys"), roots.path().join("proc"));
    installation.write_roots(&sysfs, &procfs).unwrap();
    for pid in 1000..1000 + PROCESSES {
        let stat = format!("{pid} (python) S 1 7 7 0 -1 4194560 10 0 0 0 150 50 0 0 20 0 1 0 {pid} 1000 200");
        fs::write(procfs.join(pid.to_string()).join("stat"), stat).unwrap();
    }
    let mut collector = Collector::new(CollectOptions {
        nvml_path: installation.library(),
        sysfs_root: sysfs,
        procfs_root: procfs,
        xids: XidPolicy::default(),
        quiet: DEFAULT_QUIET,
    });
    let first = Instant::now();
    let inventory = collector.round_at(&[], &[], Duration::ZERO).unwrap().inventory;
    println!("first round  {:>8.3} ms", first.elapsed().as_secs_f64() * 1000.0);
    // kubelet has given each card to somebody.
    let given = inventory.cards.iter().map(|card| Listed {
        namespace: "default".to_owned(),
        name: format!("pod-{}", card.index.0),
        container: "main".to_owned(),
        resource: ResourceName::gpu(),
        ids: vec![DeviceId { device: DeviceUuid::Gpu(card.uuid.clone()), seat: None }],
    });
    let listed: Vec<Listed> = given.collect();
    let (begun, cpu) = (Instant::now(), cpu_ticks());
    for second in 1..=ROUNDS {
        // Ten seconds apart, so that every sixth round reads the inventory too.
        collector.round_at(&[], &listed, Duration::from_secs(10 * u64::from(second))).unwrap();
    }
    let rounds = f64::from(ROUNDS);
    println!("a round      {:>8.3} ms", begun.elapsed().as_secs_f64() * 1000.0 / rounds);
    // Ticks are of 10 ms.
    println!("of it CPU    {:>8.3} ms", f64::from(cpu_ticks() - cpu) * 10.0 / rounds);
}

/// User and system time of this process in ticks.
fn cpu_ticks() -> u32 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap()
}
