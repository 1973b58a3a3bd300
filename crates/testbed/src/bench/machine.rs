//! The machine that was measured on.

use std::fs;
use std::thread::available_parallelism;

/// Processor, cores and memory, as the kernel tells them.
pub(super) fn describe() -> String {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).map(ToOwned::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_else(|| "unknown".to_owned())
    };
    let cores = available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = field("/proc/meminfo", "MemTotal");
    let kib = memory.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    format!("{}, {cores} cores, {} GiB of memory", field("/proc/cpuinfo", "model name"), kib / (1 << 20))
}
