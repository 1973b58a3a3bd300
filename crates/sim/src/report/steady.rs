//! A steady state of arrivals and endings.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Arrived, Capacity, Decisions};

/// One policy under one stream of arrivals and endings. Percentages of a time are time means.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SteadyRun {
    /// The trace.
    pub trace: String,
    /// How it was replayed: `steady`.
    pub protocol: &'static str,
    /// The mix that pods are drawn from: `trace` or `two-dimensional`.
    pub mix: &'static str,
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Offered demand as a part of the cluster.
    pub load: f64,
    /// Mean stay.
    pub stay_seconds: u64,
    /// Mean stays before measuring.
    pub warm_up_stays: u64,
    /// Mean stays of measuring.
    pub measured_stays: u64,
    /// What arrived while measuring.
    pub arrived: Arrived,
    /// What there is.
    pub capacity: Capacity,
    /// What was refused of it.
    pub refused: Refused,
    /// Refused by size: `none`, `share`, `1`, `2-4`, `5-8`, `>8` cards.
    pub refused_by_size: BTreeMap<&'static str, Refused>,
    /// Demand of the pods that run.
    pub allocated_pct: f64,
    /// Taken from the cluster: more than allocated where a share takes a whole card.
    pub held_pct: f64,
    /// Idle, but useless to the mix of pods.
    pub fragmented_pct: f64,
    /// Four points a mean stay, warm-up included.
    pub curve: Vec<SteadyPoint>,
    /// How fast.
    pub decisions: Decisions,
    /// Held after everything ended: 0, or something was lost.
    #[serde(skip)]
    pub left_over_milli: u64,
}

/// Pods that did not fit when they arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Pods.
    pub pods: u64,
    /// Thousandths of a card.
    pub gpu_milli: u64,
    /// Of the pods that arrived.
    pub pods_pct: f64,
    /// Of the demand that arrived.
    pub demand_pct: f64,
}

/// A quarter of a mean stay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SteadyPoint {
    /// Its end, in mean stays.
    pub stays: f64,
    /// Demand of the pods that run.
    pub allocated_pct: f64,
    /// Taken from the cluster.
    pub held_pct: f64,
    /// Idle, but useless to the mix of pods.
    pub fragmented_pct: f64,
    /// Of the demand that arrived in it.
    pub refused_pct: f64,
}
