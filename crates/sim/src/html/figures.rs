//! Which charts a kind of run has.

use std::collections::BTreeMap;

use super::chart::{Bars, Line, Words, bars, lines};
use crate::philly::SIZES;
use crate::report::{Outcome, Point, QueuePoint, QueueRun, Run, SteadyPoint, SteadyRun, Summary, Waiting, by_policy};

/// The charts of an experiment's runs.
pub(super) fn figures(outcomes: &[Outcome]) -> Vec<String> {
    match outcomes.first() {
        Some(Outcome::Fill(_)) => fill(outcomes),
        Some(Outcome::Steady(_)) => steady(outcomes),
        Some(Outcome::Queue(_)) => queue(outcomes),
        None => Vec::new(),
    }
}

/// A line a policy: at each x the values of its runs.
fn curves<'a, R, P: 'a>(
    outcomes: &'a [Outcome],
    run: fn(&Outcome) -> Option<&R>,
    points: fn(&R) -> &[P],
    at: impl Fn(&P) -> (f64, f64),
) -> Vec<Line<'a>> {
    let line = |(name, runs): (&'a str, Vec<&'a Outcome>)| {
        let mut values: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        for point in runs.iter().filter_map(|o| run(o)).flat_map(points) {
            let (x, y) = at(point);
            values.entry((x * 1000.0).round() as i64).or_default().push(y);
        }
        let points = values.into_iter().map(|(x, ys)| (x as f64 / 1000.0, Summary::of(ys))).collect();
        Line { name, points }
    };
    by_policy(outcomes).into_iter().map(line).collect()
}

fn fill(outcomes: &[Outcome]) -> Vec<String> {
    let of = |y: fn(&Point) -> f64| {
        let run = Outcome::fill;
        curves(outcomes, run, |r: &Run| r.curve.as_slice(), move |p: &Point| (p.arrived_pct, y(p)))
    };
    let x = "arrived demand, % of all cards";
    let allocated = Words {
        id: "allocated",
        title: "Allocation while the cluster fills",
        description: "How much of the cluster is allocated, by how much has been asked for. Higher is better. One line a \
            policy; its band spans the least and the largest of its runs. The table below has the numbers.",
        x,
        y: "allocated, %",
    };
    let full = Words {
        id: "allocated-near-full",
        title: "The same from 80 % on",
        description: "The upper end of the chart before, magnified.",
        x,
        y: "allocated, %",
    };
    let fragmented = Words {
        id: "fragmented",
        title: "Fragmentation while the cluster fills",
        description: "Idle cards and parts of cards that are of no use to the usual mix of pods, by how much has been \
            asked for. Lower is better.",
        x,
        y: "fragmented, %",
    };
    let mut near_full = of(|p| p.allocated_pct);
    near_full.iter_mut().for_each(|line| line.points.retain(|(x, _)| *x >= 80.0));
    let mut charts = vec![lines(&allocated, &of(|p| p.allocated_pct), (0.0, 100.0))];
    if near_full.iter().all(|line| line.points.len() > 1) {
        charts.push(lines(&full, &near_full, (95.0, 96.0)));
    }
    charts.push(lines(&fragmented, &of(|p| p.fragmented_pct), (0.0, 0.0)));
    charts
}

fn steady(outcomes: &[Outcome]) -> Vec<String> {
    let run = Outcome::steady;
    let of = |y: fn(&SteadyPoint) -> f64| {
        curves(outcomes, run, |r: &SteadyRun| r.curve.as_slice(), move |p: &SteadyPoint| (p.stays, y(p)))
    };
    let x = "time, mean stays";
    let allocated = Words {
        id: "allocated",
        title: "Allocation over time",
        description: "How much of the cluster is allocated while pods come and go, from the middle of the warming up \
            on. One line a policy; its band spans the least and the largest of its runs.",
        x,
        y: "allocated, %",
    };
    let fragmented = Words {
        id: "fragmented",
        title: "Fragmentation over time",
        description: "Idle cards and parts of cards that are of no use to the mix of pods. Lower is better.",
        x,
        y: "fragmented, %",
    };
    let refused = Words {
        id: "refused",
        title: "Refused demand by size",
        description: "Of the demand of each size that arrived while measuring, how much did not fit. Lower is better.",
        x: "what a pod asks for: a share of a card, or cards",
        y: "refused, %",
    };
    let sizes = [&["share"][..], &SIZES].concat();
    let present = |size: &&str| outcomes.iter().filter_map(run).any(|r| r.refused_by_size.contains_key(size));
    let sizes: Vec<&str> = sizes.into_iter().filter(present).collect();
    let series: Vec<Bars<'_>> = by_policy(outcomes)
        .into_iter()
        .map(|(name, runs)| {
            let value = |size: &&str| {
                let parts = runs.iter().filter_map(|o| run(o)).filter_map(|r| r.refused_by_size.get(size));
                Summary::of(parts.map(|r| r.demand_pct))
            };
            Bars { name, values: sizes.iter().map(value).collect() }
        })
        .collect();
    // While the cluster still fills all are equal, and the rest would be a thin line at the top.
    let from = outcomes.iter().filter_map(run).map(|r| r.warm_up_stays as f64 / 2.0).fold(0.0, f64::max);
    let late = |words: &Words<'_>, y: fn(&SteadyPoint) -> f64, at_least| {
        let mut curves = of(y);
        curves.iter_mut().for_each(|line| line.points.retain(|(stays, _)| *stays >= from));
        lines(words, &curves, at_least)
    };
    vec![
        late(&allocated, |p| p.allocated_pct, (90.0, 95.0)),
        late(&fragmented, |p| p.fragmented_pct, (0.0, 0.0)),
        bars(&refused, &sizes, &series),
    ]
}

fn queue(outcomes: &[Outcome]) -> Vec<String> {
    let run = Outcome::queue;
    let of = |y: fn(&QueuePoint) -> f64| {
        curves(outcomes, run, |r: &QueueRun| r.curve.as_slice(), move |p: &QueuePoint| (p.time_pct, y(p)))
    };
    let by_size = |id, title, description, of: fn(&Waiting) -> f64| {
        let words = Words { id, title, description, x: "cards of the job", y: "waiting, hours" };
        let series: Vec<Bars<'_>> = outcomes
            .iter()
            .filter_map(run)
            .map(|r| {
                let value = |size| r.waiting_by_size.get(size).map_or(0.0, of) / 3600.0;
                Bars { name: &r.policy, values: SIZES.map(|size| Summary::of([value(size)])).into() }
            })
            .collect();
        bars(&words, &SIZES, &series)
    };
    let x = "time, % of the time in which jobs arrive";
    let utilised = Words {
        id: "utilised",
        title: "Utilisation over time",
        description: "Cards held while jobs arrive. One line a policy.",
        x,
        y: "cards held, %",
    };
    let waiting = Words {
        id: "waiting",
        title: "Waiting demand over time",
        description: "Cards that waiting pods ask for, in percent of all cards. Lower is better.",
        x,
        y: "cards waited for, %",
    };
    vec![
        by_size(
            "waiting-mean",
            "Mean waiting by size",
            "Mean time from arrival to the start of a job's last pod, by cards of the job. Lower is better.",
            |w| w.mean_seconds,
        ),
        by_size(
            "waiting-p99",
            "99th percentile of waiting by size",
            "The time within which 99 of 100 jobs of a size have started. Lower is better.",
            |w| w.p99_seconds,
        ),
        lines(&utilised, &of(|p| p.utilisation_pct), (0.0, 100.0)),
        lines(&waiting, &of(|p| p.waiting_pct), (0.0, 0.0)),
    ]
}
