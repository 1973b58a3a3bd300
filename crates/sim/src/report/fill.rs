//! A cluster filled until nothing fits.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Arrived, Capacity, Decisions, round};

/// Loads that are reported by themselves, in percent of the cluster.
const LANDMARKS: [u64; 7] = [80, 90, 95, 100, 110, 120, 130];

/// One policy on one order of a trace. Percentages are of the cluster's GPU capacity. Its JSON form is a
/// promise (see `docs/simulate.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The trace.
    pub trace: String,
    /// How it was replayed: `fill`.
    pub protocol: &'static str,
    /// The policy.
    pub policy: String,
    /// The seed, where there is one.
    pub seed: Option<u64>,
    /// What arrived in all.
    pub arrived: Arrived,
    /// What there is.
    pub capacity: Capacity,
    /// One point for each integer percent of arrived demand.
    pub curve: Vec<Point>,
    /// The points at the usual loads.
    pub at_arrived: BTreeMap<Load, Landmark>,
    /// How fast.
    pub decisions: Decisions,
    #[serde(skip)]
    bins: BTreeMap<u64, Bin>,
    #[serde(skip)]
    placed_milli: u64,
    #[serde(skip)]
    refused: u64,
}

/// A load in percent, written as a string, in numeric order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(pub u64);

impl Serialize for Load {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Means over the pods that arrived within one percent of load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Load.
    pub arrived_pct: f64,
    /// Demand of the pods that were placed.
    pub allocated_pct: f64,
    /// Taken from the cluster: more than allocated where a share takes a whole card.
    pub held_pct: f64,
    /// Idle, but useless to the usual mix of pods.
    pub fragmented_pct: f64,
    /// Pods refused so far.
    pub unscheduled: u64,
}

/// One usual load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Landmark {
    /// Demand of the pods that were placed.
    pub allocated_pct: f64,
    /// The rest.
    pub unallocated_pct: f64,
    /// Taken from the cluster.
    pub held_pct: f64,
    /// Idle, but useless to the usual mix of pods.
    pub fragmented_pct: f64,
    /// Pods refused so far.
    pub unscheduled: u64,
}

impl From<&Point> for Landmark {
    fn from(p: &Point) -> Self {
        Self {
            allocated_pct: p.allocated_pct,
            unallocated_pct: round(100.0 - p.allocated_pct),
            held_pct: p.held_pct,
            fragmented_pct: p.fragmented_pct,
            unscheduled: p.unscheduled,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Bin {
    events: u64,
    allocated: u128,
    held: u128,
    fragmented: u128,
    refused: u64,
}

impl Run {
    pub(crate) fn new(trace: &str, policy: &str, seed: Option<u64>, capacity_milli: u64) -> Self {
        Self {
            trace: trace.to_owned(),
            protocol: "fill",
            policy: policy.to_owned(),
            seed,
            arrived: Arrived { pods: 0, gpu_milli: 0 },
            capacity: Capacity { gpu_milli: capacity_milli },
            curve: Vec::new(),
            at_arrived: BTreeMap::new(),
            decisions: Decisions::default(),
            bins: BTreeMap::new(),
            placed_milli: 0,
            refused: 0,
        }
    }

    /// A pod arrived and was placed or refused; the cluster is now like this.
    pub(crate) fn arrival(&mut self, milli: u64, placed: bool, held: u64, fragmented: u64) {
        self.arrived.pods += 1;
        self.arrived.gpu_milli += milli;
        if placed {
            self.placed_milli += milli;
        } else {
            self.refused += 1;
        }
        // Rounded to the nearest percent, halves up.
        let load = (200 * self.arrived.gpu_milli + self.capacity.gpu_milli) / (2 * self.capacity.gpu_milli);
        let bin = self.bins.entry(load).or_default();
        bin.events += 1;
        bin.allocated += u128::from(self.placed_milli);
        bin.held += u128::from(held);
        bin.fragmented += u128::from(fragmented);
        bin.refused = self.refused;
    }

    pub(crate) fn finish(&mut self, decisions: Decisions) {
        let capacity = self.capacity.gpu_milli as f64;
        self.curve = self
            .bins
            .iter()
            .map(|(load, bin)| {
                let mean = |sum: u128| round(100.0 * sum as f64 / bin.events as f64 / capacity);
                Point {
                    arrived_pct: *load as f64,
                    allocated_pct: mean(bin.allocated),
                    held_pct: mean(bin.held),
                    fragmented_pct: mean(bin.fragmented),
                    unscheduled: bin.refused,
                }
            })
            .collect();
        for load in LANDMARKS {
            if let Some(point) = self.curve.iter().find(|p| p.arrived_pct == load as f64) {
                self.at_arrived.insert(Load(load), point.into());
            }
        }
        self.decisions = decisions;
    }

    /// The end of the run: the last point.
    pub fn last(&self) -> Option<&Point> {
        self.curve.last()
    }

    /// Allocated percent at a load.
    pub fn allocated_at(&self, load: u64) -> Option<f64> {
        self.curve.iter().find(|p| p.arrived_pct == load as f64).map(|p| p.allocated_pct)
    }
}
