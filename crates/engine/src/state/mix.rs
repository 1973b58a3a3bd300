//! The mix of requests: what kinds of pods a cluster sees, and how often.
//!
//! Policies that value a node by what else could still run there (fragmentation gradient descent, prices)
//! ask this. A declared mix is fixed; otherwise it is learnt from arrivals, and refreshed as they grow by
//! a quarter, so that what policies derive from it stays valid between refreshes.

use crate::collections::Lookup;
use crate::model::{GpuShape, PatternId};
use crate::state::ClassSpec;

/// Share of the pods, in percent, that the typical shapes must cover (FGD, section 5.1 of its paper).
const COVERAGE: u64 = 95;

/// The outline of a pod, as policies see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A typical shape with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Typical {
    /// The shape.
    pub shape: Shape,
    /// How many pods have it.
    pub count: u64,
}

/// Counts of shapes, and the typical ones among them.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    counts: Vec<Typical>,
    index: Lookup<Shape, usize>,
    declared: bool,
    arrived: u64,
    refresh_at: u64,
    typical: Vec<Typical>,
    weight: u64,
    version: u64,
}

impl Mix {
    /// A mix that is known beforehand and does not learn.
    pub(crate) fn declared(shapes: impl IntoIterator<Item = Shape>) -> Self {
        let mut mix = Self::default();
        for shape in shapes {
            mix.add(shape);
        }
        mix.declared = true;
        mix.refresh();
        mix
    }

    /// An arrival.
    pub(crate) fn count(&mut self, shape: Shape) {
        if self.declared {
            return;
        }
        self.add(shape);
        if self.arrived >= self.refresh_at {
            self.refresh();
            self.refresh_at = (self.arrived + self.arrived / 4).max(self.arrived + 10);
        }
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
