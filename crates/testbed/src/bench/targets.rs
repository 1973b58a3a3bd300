//! What was to be reached, and whether it was.

use std::fmt::Write as _;

use super::{Backlog, Report, Steady, Who, Workload, millis};

/// One figure beside what it was to be.
struct Target {
    what: &'static str,
    wanted: String,
    reached: String,
    met: bool,
}

impl Target {
    fn at_least(what: &'static str, wanted: f64, reached: f64) -> Self {
        Self { what, wanted: format!("≥ {wanted}"), reached: format!("{reached:.2}"), met: reached >= wanted }
    }

    fn at_most(what: &'static str, wanted: f64, reached: f64) -> Self {
        Self { what, wanted: format!("≤ {wanted}"), reached: format!("{reached:.2}"), met: reached <= wanted }
    }
}

/// Writes them as a table; those that nothing was measured for are left out.
pub(super) fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text, "| to be reached | | reached | |\n|---|---|---|---|")?;
    for target in of_backlogs(report).into_iter().chain(of_arrivals(report)) {
        let met = if target.met { "yes" } else { "**no**" };
        writeln!(text, "| {} | {} | {} | {met} |", target.what, target.wanted, target.reached)?;
    }
    writeln!(text)
}

fn of_backlogs(report: &Report) -> Vec<Target> {
    let find = |who: Who, workload: Workload| {
        report.backlogs.iter().find(|backlog| backlog.who == who && backlog.workload == workload)
    };
    let mut targets = Vec::new();
    let Some(ours) = find(Who::Ours, Workload::Whole) else { return targets };
    if let Some(theirs) = find(Who::KubeScheduler, Workload::Whole) {
        let times = ours.rate() / theirs.rate();
        targets.push(Target::at_least("pods/s, × kube-scheduler", 4.0, times));
        if let (Some(ours), Some(theirs)) = (ours.rate_told(), theirs.rate_told()) {
            targets.push(Target::at_least("pods/s until all events are written, × kube-scheduler", 1.5, ours / theirs));
        }
    }
    if let Some(bare) = find(Who::BareLoop, Workload::Whole) {
        targets.push(Target::at_least("pods/s, × bare loop", 0.8, ours.rate() / bare.rate()));
    }
    if let Some(cpu) = ours.cpu_ms() {
        targets.push(Target::at_most("processor time a pod, ms", 0.5, cpu));
    }
    if let Some(shares) = find(Who::Ours, Workload::Shares) {
        targets.push(Target::at_least("shares, × whole cards", 0.95, shares.rate() / ours.rate()));
    }
    let memory = report.backlogs.iter().filter(|it| it.who == Who::Ours).filter_map(|it: &Backlog| it.mib).max();
    targets.extend(memory.map(|mib| Target::at_most("resident memory at its most, MiB", 1024.0, mib as f64)));
    targets
}

fn of_arrivals(report: &Report) -> Vec<Target> {
    let find = |who: Who| {
        let same = |it: &&Steady| it.who == who && it.rate == 50 && it.workload == Workload::Whole;
        report.steady.iter().find(same).map(|it| it.p99)
    };
    let mut targets = Vec::new();
    let Some(ours) = find(Who::Ours) else { return targets };
    if let Some(theirs) = find(Who::KubeScheduler) {
        let what = "p99 from created to bound at 50 pods/s, × kube-scheduler";
        targets.push(Target::at_most(what, 1.0, millis(ours) / millis(theirs)));
    }
    targets.push(Target::at_most("p99 from created to bound at 50 pods/s, ms", 50.0, millis(ours)));
    targets
}
