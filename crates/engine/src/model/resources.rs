//! Amounts of node resources: what drivers say, and what the engine adds and compares.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::model::{Quantity, Symbol, Symbols};

/// Resource name to amount, as in `resources.requests` or `status.allocatable`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Amounts in Kubernetes' scheduling units: CPU in milli-cores, bytes, and whole numbers of the rest
/// ("scalar" resources: extended resources, huge pages). Signed, so that an overcommitted node's free
/// amount is a number too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Milli-cores.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of local storage.
    pub ephemeral: i64,
    /// The rest, sorted by symbol, without zeros.
    scalars: SmallVec<[(Symbol, i64); 2]>,
}

/// No amount counts as more than this, 2^50 (a pebibyte, or a trillion cores): sums over the pods of a node stay far
/// from overflow, and taking away is exactly the inverse of adding.
const MOST: i64 = 1 << 50;

impl Resources {
    /// Compiles a list; `pods` is not a resource here. Amounts round up.
    pub fn compile(list: &ResourceList, symbols: &mut Symbols) -> Self {
        let mut resources = Self::default();
        for (name, amount) in list {
            let value = bounded(amount.value());
            match name.as_str() {
                "cpu" => resources.cpu = bounded(amount.milli_value()),
                "memory" => resources.memory = value,
                "ephemeral-storage" => resources.ephemeral = value,
                "pods" => {}
                _ => resources.add_scalar(symbols.intern(name), value),
            }
        }
        resources
    }

    /// The amount of a scalar resource.
    pub fn scalar(&self, name: Symbol) -> i64 {
        self.scalars.binary_search_by_key(&name, |s| s.0).map_or(0, |at| self.scalars[at].1)
    }

    /// All scalar resources that are not zero.
    pub fn scalars(&self) -> &[(Symbol, i64)] {
        &self.scalars
    }

    fn add_scalar(&mut self, name: Symbol, amount: i64) {
        match self.scalars.binary_search_by_key(&name, |s| s.0) {
            Ok(at) => {
                self.scalars[at].1 = self.scalars[at].1.wrapping_add(amount);
                if self.scalars[at].1 == 0 {
                    self.scalars.remove(at);
                }
            }
            Err(at) if amount != 0 => self.scalars.insert(at, (name, amount)),
            Err(_) => {}
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.cpu = self.cpu.wrapping_add(other.cpu);
        self.memory = self.memory.wrapping_add(other.memory);
        self.ephemeral = self.ephemeral.wrapping_add(other.ephemeral);
        for (name, amount) in &other.scalars {
            self.add_scalar(*name, *amount);
        }
    }

    /// Takes `other` away again.
    pub fn subtract(&mut self, other: &Self) {
        self.cpu = self.cpu.wrapping_sub(other.cpu);
        self.memory = self.memory.wrapping_sub(other.memory);
        self.ephemeral = self.ephemeral.wrapping_sub(other.ephemeral);
        for (name, amount) in &other.scalars {
            self.add_scalar(*name, amount.wrapping_neg());
        }
    }

    /// Whether nothing is asked.
    pub fn is_zero(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral == 0 && self.scalars.is_empty()
    }
}

/// An amount within the bounds that sums are safe with.
pub(crate) fn bounded(amount: i64) -> i64 {
    amount.clamp(-MOST, MOST)
}
