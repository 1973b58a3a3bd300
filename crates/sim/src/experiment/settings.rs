//! What an experiment can be told: by flags, or by the fields of a plan.

use std::path::{Path, PathBuf};

use gpu_scheduler_engine::Policy;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::{ExperimentError, with_seed};
use crate::Permille;
use crate::philly::ClusterShape;
use crate::seeds::Seeds;
use crate::steady::Stream;

/// Seed where none is given.
const SEED: u64 = 42;
/// Demand of a drawn order where none is given.
const INFLATE: Permille = Permille(1300);
/// Mean stay in seconds, mean stays of warming up, and of measuring, where none are given.
const STAY: u64 = 3600;
const WARM_UP: u64 = 6;
const MEASURE: u64 = 10;
/// A stay of more than a year, or more than a thousand stays, is a slip.
const LONGEST_STAY: u64 = 366 * 86_400;
const MOST_STAYS: u64 = 1000;

/// A trace that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceName {
    /// Alibaba's GPU cluster trace 2023: shares and whole cards, without times.
    Openb,
    /// Microsoft's Philly trace 2017: jobs of whole cards over time.
    Philly,
}

/// What pods ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// What the trace's pods ask for.
    #[default]
    Trace,
    /// Made up: shares heavy in memory, shares heavy in compute, some whole cards.
    TwoDimensional,
}

impl Mix {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::TwoDimensional => "two-dimensional",
        }
    }
}

/// Files to write a report to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportFiles {
    /// As JSON.
    pub json: Option<PathBuf>,
    /// As a page.
    pub html: Option<PathBuf>,
    /// As text.
    pub table: Option<PathBuf>,
}

/// All settings. What is not given has a default, or must not be needed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// A heading for people.
    pub title: Option<String>,
    /// The trace.
    pub trace: Option<TraceName>,
    /// openb: the nodes.
    pub nodes: Option<PathBuf>,
    /// openb: the pods.
    pub pods: Option<PathBuf>,
    /// openb: arrival files; `{seed}` in a name stands for each seed.
    #[serde(deserialize_with = "one_or_many")]
    pub order: Vec<PathBuf>,
    /// openb: demand of a drawn order.
    pub inflate: Option<Permille>,
    /// philly: the jobs.
    pub jobs_file: Option<PathBuf>,
    /// philly: the cluster.
    #[serde(deserialize_with = "parsed")]
    pub cluster: Option<ClusterShape>,
    /// philly: only the first jobs.
    pub limit: Option<usize>,
    /// Offered demand as a part of the cluster; with openb, pods come and go.
    pub load: Option<Permille>,
    /// openb with a load: what pods ask for.
    pub mix: Option<Mix>,
    /// openb with a load: mean stay in seconds.
    pub stay: Option<u64>,
    /// openb with a load: mean stays before measuring.
    pub warm_up: Option<u64>,
    /// openb with a load: mean stays of measuring.
    pub measure: Option<u64>,
    /// Policies; without any, the default one.
    #[serde(deserialize_with = "policies")]
    pub policies: Vec<Policy>,
    /// Seeds.
    pub seeds: Option<Seeds>,
    /// Where to write reports.
    pub report: ReportFiles,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a path or a list of paths")]
    enum Paths {
        One(PathBuf),
        Many(Vec<PathBuf>),
    }
    Ok(match Paths::deserialize(deserializer)? {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    })
}

fn parsed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ClusterShape>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

fn policies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Policy>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
}

impl Settings {
    /// Settings that contradict each other, or have no meaning here.
    pub(super) fn check(&self) -> Result<(), ExperimentError> {
        let wrong = |setting, what: &str| Err(ExperimentError::Setting { setting, what: what.to_owned() });
        for (setting, given, goes_with, fits) in self.companions() {
            if given && !fits {
                return wrong(setting, &format!("it goes with {goes_with}; leave it out"));
            }
        }
        let templates = self.order.iter().any(|path| is_template(path));
        if !self.order.is_empty() && self.seeds.is_some() && !templates {
            return wrong(
                "seeds",
                "the order files say who arrives when; leave seeds out, or write {seed} in the order",
            );
        }
        if templates && self.seeds.is_none() {
            return wrong("order", "{seed} stands for seeds, but none are given; give seeds, such as 42..51");
        }
        if self.stay.is_some_and(|stay| !(1..=LONGEST_STAY).contains(&stay)) {
            return wrong("stay", &format!("it must be 1 to {LONGEST_STAY} seconds"));
        }
        for (setting, stays, least) in [("warm-up", self.warm_up, 0), ("measure", self.measure, 1)] {
            if stays.is_some_and(|n| !(least..=MOST_STAYS).contains(&n)) {
                return wrong(setting, &format!("it must be {least} to {MOST_STAYS} mean stays"));
            }
        }
        match twice(&self.policies) {
            Some(policy) => wrong("policies", &format!("{policy} is named twice")),
            None => Ok(()),
        }
    }

    /// Setting, whether it is given, what it goes with, and whether that is so.
    fn companions(&self) -> [(&'static str, bool, &'static str, bool); 12] {
        let (openb, philly) = (self.trace == Some(TraceName::Openb), self.trace == Some(TraceName::Philly));
        let (fill, steady) = (openb && self.load.is_none(), openb && self.load.is_some());
        [
            ("nodes", self.nodes.is_some(), "the trace openb", openb),
            ("pods", self.pods.is_some(), "the trace openb and its own mix", openb && self.mix() == Mix::Trace),
            ("mix", self.mix.is_some(), "the trace openb with load", steady),
            ("order", !self.order.is_empty(), "the trace openb without load", fill),
            (
                "inflate",
                self.inflate.is_some(),
                "the trace openb without load and order",
                fill && self.order.is_empty(),
            ),
            ("seeds", self.seeds.is_some(), "the trace openb", openb),
            ("stay", self.stay.is_some(), "the trace openb with load", steady),
            ("warm-up", self.warm_up.is_some(), "the trace openb with load", steady),
            ("measure", self.measure.is_some(), "the trace openb with load", steady),
            ("jobs-file", self.jobs_file.is_some(), "the trace philly", philly),
            ("cluster", self.cluster.is_some(), "the trace philly", philly),
            ("limit", self.limit.is_some(), "the trace philly", philly),
        ]
    }

    pub(super) fn required<T>(&self, setting: &'static str, value: Option<T>) -> Result<T, ExperimentError> {
        let what = match setting {
            "trace" => "it is missing; name openb or philly",
            "nodes" | "pods" => "it is missing; the trace openb needs its file of nodes and its file of pods",
            "jobs-file" => "it is missing; the trace philly needs its file of jobs",
            "cluster" => "it is missing; the trace philly needs a cluster, such as 64x8",
            _ => "it is missing; give the offered demand as a part of the cluster, such as 0.9",
        };
        value.ok_or_else(|| ExperimentError::Setting { setting, what: what.to_owned() })
    }

    pub(super) fn mix(&self) -> Mix {
        self.mix.unwrap_or_default()
    }

    pub(super) fn policies(&self) -> Vec<Policy> {
        if self.policies.is_empty() { vec![Policy::ShadowPrice] } else { self.policies.clone() }
    }

    pub(super) fn seeds(&self) -> Vec<u64> {
        self.seeds.as_ref().map_or_else(|| vec![SEED], |seeds| seeds.0.clone())
    }

    pub(super) fn inflate(&self) -> Permille {
        self.inflate.unwrap_or(INFLATE)
    }

    pub(super) fn stream(&self, load: Permille) -> Stream {
        Stream {
            load,
            stay: self.stay.unwrap_or(STAY),
            warm_up: self.warm_up.unwrap_or(WARM_UP),
            measure: self.measure.unwrap_or(MEASURE),
        }
    }

    /// The arrival files, one a seed where a name has `{seed}`.
    pub(super) fn order_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in &self.order {
            if is_template(path) {
                files.extend(self.seeds().into_iter().map(|seed| with_seed(path, seed)));
            } else {
                files.push(path.clone());
            }
        }
        files
    }
}

fn is_template(path: &Path) -> bool {
    path.to_string_lossy().contains("{seed}")
}

fn twice(policies: &[Policy]) -> Option<Policy> {
    let repeated = |(n, policy): (usize, &Policy)| policies[..n].contains(policy);
    policies.iter().enumerate().find(|at| repeated(*at)).map(|(_, policy)| *policy)
}
