//! What was measured, as a part of a document.

use std::fmt::Write as _;

use super::{Backlog, Settings, Steady, Who, machine, millis, targets};

/// What was measured on one bed.
#[derive(Debug)]
pub struct Report {
    nodes: usize,
    seconds: u32,
    machine: String,
    /// Backlogs, in the order in which they were worked off.
    pub backlogs: Vec<Backlog>,
    /// Steady arrivals.
    pub steady: Vec<Steady>,
}

impl Report {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            nodes: settings.nodes,
            seconds: settings.seconds,
            machine: machine::describe(),
            backlogs: Vec::new(),
            steady: Vec::new(),
        }
    }

    /// Markdown: a heading and tables.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = format!("## {} nodes of eight cards\n\nOn {}.\n\n", self.nodes, self.machine);
        self.write_backlogs(&mut text).expect("writing into a string does not fail");
        self.write_steady(&mut text).expect("writing into a string does not fail");
        targets::write(self, &mut text).expect("writing into a string does not fail");
        text
    }

    fn write_backlogs(&self, text: &mut String) -> std::fmt::Result {
        let of = |who: Who| self.backlogs.iter().find(|backlog| backlog.who == who).map(Backlog::rate);
        let ratio = |rate: f64, to: Option<f64>| to.map_or("–".to_owned(), |to| format!("{:.2}", rate / to));
        writeln!(
            text,
            "| a backlog of | pods/s | × kube-scheduler | × bare loop | pods/s with events | CPU a pod | memory |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|")?;
        for backlog in &self.backlogs {
            let rate = backlog.rate();
            let told = backlog.rate_told().map_or("–".to_owned(), |rate| format!("{rate:.0}"));
            let cpu = backlog.cpu_ms().map_or("–".to_owned(), |ms| format!("{ms:.2} ms"));
            let memory = backlog.mib.map_or("–".to_owned(), |mib| format!("{mib} MiB"));
            writeln!(
                text,
                "| {} {}, {} | {rate:.0} | {} | {} | {told} | {cpu} | {memory} |",
                backlog.pods,
                backlog.workload.as_str(),
                backlog.who,
                ratio(rate, of(Who::KubeScheduler)),
                ratio(rate, of(Who::BareLoop)),
            )?;
        }
        Ok(())
    }

    fn write_steady(&self, text: &mut String) -> std::fmt::Result {
        if self.steady.is_empty() {
            return writeln!(text);
        }
        let ms = |time| format!("{:.1} ms", millis(time));
        writeln!(text, "\n| pods a second, for {} s | who | created to bound, p50 | p99 |", self.seconds)?;
        writeln!(text, "|---|---|---|---|")?;
        for it in &self.steady {
            writeln!(text, "| {} {} | {} | {} | {} |", it.rate, it.workload.as_str(), it.who, ms(it.p50), ms(it.p99))?;
        }
        writeln!(text)
    }
}
