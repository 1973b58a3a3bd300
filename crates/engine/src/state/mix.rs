//! The mix of requests: what kinds of pods a cluster sees, and how often.
//!
//! Policies that value a node by what else could still run there (fragmentation gradient descent, prices)
//! ask this. A declared mix is fixed; otherwise it is learnt from arrivals, and refreshed as they grow by
//! a quarter, so that what policies derive from it stays valid between refreshes.

use crate::collections::Lookup;
use crate::model::{GpuShape, ModelPattern, PatternId};
use crate::state::ClassSpec;

/// Share of the pods, in percent, that the typical shapes must cover (FGD, section 5.1 of its paper).
const COVERAGE: u64 = 95;

/// The outline of a pod, as policies see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    /// Milli-cores.
    pub cpu: i64,
    /// GPUs.
    pub gpu: GpuShape,
    /// Which models will do.
    pub pattern: PatternId,
}

impl Shape {
    /// The outline of a class.
    pub fn of(spec: &ClassSpec) -> Self {
        Self { cpu: spec.charge.requests.cpu, gpu: spec.shape, pattern: spec.pattern }
    }
}

/// A pod of a mix that is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredPod {
    /// Milli-cores.
    pub cpu: i64,
    /// GPUs.
    pub gpu: GpuShape,
    /// Which models will do.
    pub models: ModelPattern,
}

/// A typical shape with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Typical {
    /// The shape.
    pub shape: Shape,
    /// How many pods have it.
    pub count: u64,
}

/// Counts of shapes that arrived, and the typical ones among them.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Mix {
    counts: Vec<Typical>,
    #[serde(skip)]
    index: Lookup<Shape, usize>,
    arrived: u64,
    /// Pods that ran and went again.
    departed: u64,
    /// Whether the typical shapes are given, not learnt.
    declared: bool,
    schedule: Schedule,
    typical: Vec<Typical>,
    weight: u64,
    version: u64,
}

/// When to learn again: as arrivals grow by a quarter, at first every ten.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Schedule {
    next: u64,
}

impl Schedule {
    /// Whether it is time.
    pub fn is_due(&mut self, arrived: u64) -> bool {
        let due = arrived >= self.next;
        if due {
            self.next = if arrived < 5 { 5 } else { (arrived + arrived / 4).max(arrived + 10) };
        }
        due
    }
}

impl Mix {
    /// Fixes the typical shapes.
    pub(crate) fn declare(&mut self, shapes: impl IntoIterator<Item = Shape>) {
        let mut mix = Self::default();
        for shape in shapes {
            mix.add(shape);
        }
        mix.refresh();
        self.declared = true;
        (self.typical, self.weight) = (mix.typical, mix.weight);
        self.version += 1;
    }

    /// After the mix was read back.
    pub(super) fn make_index(&mut self) {
        self.index = self.counts.iter().enumerate().map(|(at, typical)| (typical.shape, at)).collect();
    }

    /// An arrival.
    pub(crate) fn count(&mut self, shape: Shape) {
        self.add(shape);
        if !self.declared && self.schedule.is_due(self.arrived) {
            self.refresh();
        }
    }

    /// All shapes that arrived, in order of their first arrival.
    pub fn counts(&self) -> &[Typical] {
        &self.counts
    }

    /// Notes that a pod that ran is gone.
    pub(crate) fn depart(&mut self) {
        self.departed += 1;
    }

    /// Pods that ran and went again.
    pub fn departed(&self) -> u64 {
        self.departed
    }

    /// Pods that arrived.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    fn add(&mut self, shape: Shape) {
        self.arrived += 1;
        match self.index.get(&shape) {
            Some(at) => self.counts[*at].count += 1,
            None => {
                self.index.insert(shape, self.counts.len());
                self.counts.push(Typical { shape, count: 1 });
            }
        }
    }

    /// The commonest shapes until they cover 95 % of all pods; among equals the one seen first.
    fn refresh(&mut self) {
        let mut by_count = self.counts.clone();
        by_count.sort_by_key(|t| std::cmp::Reverse(t.count));
        let (mut covered, mut kept) = (0, 0);
        for shape in &by_count {
            if covered * 100 >= self.arrived * COVERAGE {
                break;
            }
            covered += shape.count;
            kept += 1;
        }
        by_count.truncate(kept);
        self.typical = by_count;
        self.weight = covered;
        self.version += 1;
    }

    /// The typical shapes, commonest first.
    pub fn typical(&self) -> &[Typical] {
        &self.typical
    }
    /// Sum of their counts.
    pub fn weight(&self) -> u64 {
        self.weight
    }
    /// Changes whenever the typical shapes do.
    pub fn version(&self) -> u64 {
        self.version
    }
}
