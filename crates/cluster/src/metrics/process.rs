//! What the process itself uses, read from `/proc` at each scrape.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Ticks of a second in `/proc/PID/stat`. Linux has used 100 for user space since long, whatever the kernel's own
/// rate: `sysconf(_SC_CLK_TCK)`.
const TICKS: f64 = 100.0;

/// The metrics of the process. The start is when this was made, which is when the program began.
#[derive(Debug)]
pub(super) struct Process {
    started: Duration,
}

/// What `/proc/self/stat` and `/proc/self/status` say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Usage {
    cpu_seconds: f64,
    resident_bytes: i64,
}

impl Process {
    pub fn starting_now() -> Self {
        Self { started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }
}

impl Usage {
    /// `None` where there is no such file or it reads otherwise than on Linux: then the metrics are left out.
    fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        Some(Self { cpu_seconds: cpu_seconds(&stat)?, resident_bytes: resident_bytes(&status)? })
    }
}

/// User and system time of `/proc/PID/stat`: the 14th and 15th field. The second one, the program's name, may contain
/// spaces and parentheses, so fields are counted from its end.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((f64::from(user) + f64::from(system)) / TICKS)
}

/// `VmRSS` of `/proc/PID/status`, which is in kB whatever the size of a page.
fn resident_bytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = ConstGauge::new(self.started.as_secs_f64());
        let help = "Start of the process in seconds since the epoch";
        started.encode(encoder.encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?)?;
        let Some(usage) = Usage::now() else { return Ok(()) };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let help = "User and system CPU time in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?)?;
        let resident = ConstGauge::new(usage.resident_bytes);
        let help = "Resident memory in bytes";
        resident.encode(encoder.encode_descriptor("process_resident_memory_bytes", help, None, MetricType::Gauge)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 10 0 0 0 150 50 0 0 20 0 1 0 100 1000 200 18446744073709551615";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a"), None);
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
