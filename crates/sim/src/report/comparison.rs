//! The policies side by side, in words and numbers for people.

use super::{Landmark, Load, Outcome, QueueRun, Run, SteadyRun, Summary};
use crate::philly::SIZES;

/// A table with a line before and after it. One row a policy; mean ± standard deviation over its seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// What was run.
    pub head: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// What the columns mean.
    pub foot: &'static str,
}

impl Comparison {
    /// Of the runs of one experiment; `None` where there is none, or nothing arrived.
    pub fn of(outcomes: &[Outcome]) -> Option<Self> {
        match outcomes.first()? {
            Outcome::Fill(first) => fill(first, outcomes),
            Outcome::Steady(first) => Some(steady(first, outcomes)),
            Outcome::Queue(first) => Some(queue(first, outcomes)),
        }
    }
}

/// The runs by policy, in the order of their first run.
pub(crate) fn by_policy(outcomes: &[Outcome]) -> Vec<(&str, Vec<&Outcome>)> {
    let mut groups: Vec<(&str, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        match groups.iter_mut().find(|(policy, _)| *policy == outcome.policy()) {
            Some((_, runs)) => runs.push(outcome),
            None => groups.push((outcome.policy(), vec![outcome])),
        }
    }
    groups
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn speed(runs: &[&Outcome]) -> String {
    Summary::of(runs.iter().map(|r| r.decisions().per_second)).text(0)
}

/// ` (5 seeds)`, or nothing.
fn seeds(runs: usize) -> String {
    if runs > 1 { format!(" ({runs} seeds, mean ± standard deviation)") } else { String::new() }
}

/// At 100 % of arrived demand, or at the end of runs that do not get there.
fn fill(first: &Run, outcomes: &[Outcome]) -> Option<Comparison> {
    let cards = first.capacity.gpu_milli as f64 / 1000.0;
    let full = outcomes.iter().all(|o| o.fill().is_some_and(|r| r.at_arrived.contains_key(&Load(100))));
    let at = |outcome: &&Outcome| {
        let run = outcome.fill()?;
        if full { run.at_arrived.get(&Load(100)).copied() } else { run.last().map(Landmark::from) }
    };
    let groups = by_policy(outcomes);
    let row = |(policy, runs): &(&str, Vec<&Outcome>)| {
        let points: Option<Vec<Landmark>> = runs.iter().map(at).collect();
        let points = points?;
        let amount = |of: fn(&Landmark) -> f64| {
            let pct = Summary::of(points.iter().map(of));
            format!("{:.1} ({} %)", pct.mean * cards / 100.0, pct.text(2))
        };
        let time = |of: fn(&Outcome) -> f64| format!("{:.1} us", Summary::of(runs.iter().map(|r| of(r))).mean);
        Some(vec![
            (*policy).to_owned(),
            amount(|p| p.allocated_pct),
            amount(|p| p.held_pct),
            amount(|p| p.unallocated_pct),
            amount(|p| p.fragmented_pct),
            Summary::of(points.iter().map(|p| p.unscheduled as f64)).text(0),
            speed(runs),
            time(|r| r.decisions().p50_us),
            time(|r| r.decisions().p99_us),
        ])
    };
    let rows: Option<Vec<Vec<String>>> = groups.iter().map(row).collect();
    let load = if full { 100.0 } else { first.last()?.arrived_pct };
    let head = format!(
        "{} pods that ask for {:.0} cards arrive at {cards:.0} cards{}. When {load:.0} % have arrived, in cards:",
        first.arrived.pods,
        first.arrived.gpu_milli as f64 / 1000.0,
        seeds(groups.first().map_or(0, |(_, runs)| runs.len())),
    );
    let names = ["POLICY", "ALLOCATED", "HELD", "UNALLOCATED", "FRAGMENTED", "REFUSED", "DECISIONS/S", "P50", "P99"];
    let foot = "Allocated: asked for and given. Held: given, whole cards for shares included. \
        Fragmented: idle, but of no use to the usual mix of pods. Refused: pods that fitted nowhere.";
    Some(Comparison { head, columns: columns(&names), rows: rows?, foot })
}

fn steady(first: &SteadyRun, outcomes: &[Outcome]) -> Comparison {
    let groups = by_policy(outcomes);
    let row = |(policy, runs): &(&str, Vec<&Outcome>)| {
        let pct = |of: fn(&SteadyRun) -> f64| {
            let values = runs.iter().filter_map(|r| r.steady()).map(of);
            format!("{} %", Summary::of(values).text(2))
        };
        vec![
            (*policy).to_owned(),
            pct(|r| r.refused.demand_pct),
            pct(|r| r.refused.pods_pct),
            pct(|r| r.allocated_pct),
            pct(|r| r.held_pct),
            pct(|r| r.fragmented_pct),
            speed(runs),
        ]
    };
    let head = format!(
        "Pods come and go at {:.0} cards, offered demand {:.1} % of them, mean stay {} s; measured over {} mean stays \
         after {} of warming up{}:",
        first.capacity.gpu_milli as f64 / 1000.0,
        100.0 * first.load,
        first.stay_seconds,
        first.measured_stays,
        first.warm_up_stays,
        seeds(groups.first().map_or(0, |(_, runs)| runs.len())),
    );
    let names = ["POLICY", "REFUSED DEMAND", "REFUSED PODS", "ALLOCATED", "HELD", "FRAGMENTED", "DECISIONS/S"];
    let foot = "Refused: did not fit on arrival. Allocated: asked for by pods that run. Held: given, whole cards for \
        shares included. Fragmented: idle, but of no use to the mix of pods. Time means, of all cards.";
    Comparison { head, columns: columns(&names), rows: groups.iter().map(row).collect(), foot }
}

fn queue(first: &QueueRun, outcomes: &[Outcome]) -> Comparison {
    let unit = WaitUnit::of(outcomes);
    let wait = |seconds: f64| unit.text(seconds);
    let row = |outcome: &Outcome| {
        let Outcome::Queue(run) = outcome else { return Vec::new() };
        let mut row = vec![
            run.policy.clone(),
            format!("{:.2} %", run.utilisation_pct),
            wait(run.waiting.mean_seconds),
            wait(run.waiting.p50_seconds),
            wait(run.waiting.p99_seconds),
        ];
        row.extend(SIZES.map(|size| run.waiting_by_size.get(size).map_or(String::new(), |w| wait(w.mean_seconds))));
        row.extend([
            time(run.makespan_seconds),
            run.jobs.stuck.to_string(),
            format!("{:.0}", run.decisions.per_second),
        ]);
        row
    };
    let head = format!(
        "{} jobs arrive at {} nodes of {} cards, offered demand {:.1} % of them, within {}:",
        first.jobs.arrived,
        first.cluster.nodes,
        first.cluster.cards_per_node,
        100.0 * first.load,
        time(first.arrival_span_seconds),
    );
    let mut names = columns(&["POLICY", "UTILISED", "MEAN WAIT", "P50", "P99"]);
    names.extend(SIZES.map(|size| if size == "1" { "1 CARD".to_owned() } else { format!("{size} CARDS") }));
    names.extend(columns(&["MAKESPAN", "STUCK", "DECISIONS/S"]));
    let foot = "Utilised: cards held, time mean while jobs arrive. Wait: from arrival to the start of a job's last pod; by \
        cards of the job, the mean. Stuck: waited for ever, because each held what another one waited for.";
    Comparison { head, columns: names, rows: outcomes.iter().map(row).collect(), foot }
}

/// One unit for all waits of a table, so that they compare at a glance.
#[derive(Debug, Clone, Copy)]
struct WaitUnit(f64, &'static str);

impl WaitUnit {
    fn of(outcomes: &[Outcome]) -> Self {
        match outcomes.iter().filter_map(Outcome::queue).map(|r| r.waiting.mean_seconds).fold(0.0, f64::max) {
            s if s < 120.0 => Self(1.0, "s"),
            s if s < 7200.0 => Self(60.0, "min"),
            _ => Self(3600.0, "h"),
        }
    }

    fn text(self, seconds: f64) -> String {
        format!("{:.1} {}", seconds / self.0, self.1)
    }
}

/// `0 s`, `12.3 s`, `4.5 min`, `3.2 h`, `1.7 d`.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in
            [(0.0, "0 s"), (1.0, "1.0 s"), (300.0, "5.0 min"), (7200.0, "2.0 h"), (864_000.0, "10.0 d")]
        {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn nothing_compares_to_nothing() {
        assert_eq!(Comparison::of(&[]), None);
        assert_eq!(Comparison::of(&[Outcome::Fill(Run::new("openb", "fgd", None, 1000))]), None);
    }
}
