//! Interned strings: labels, taints and names become integers, so that comparing them costs nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::collections::Lookup;
use crate::model::ids::slot;

slot! {
    /// An interned string. Equal strings have equal symbols; the order of symbols means nothing.
    Symbol
}

impl Symbol {
    /// The lowest: where ranges of keys begin.
    pub(crate) const FIRST: Self = Self(0);
}

/// The table behind [`Symbol`]. It only grows: what is interned (node labels, taints, selectors,
/// resource names, GPU models) is bounded by what the cluster's nodes ever carried.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "SymbolNames")]
pub struct Symbols {
    names: Vec<Arc<str>>,
    #[serde(skip)]
    index: Lookup<Arc<str>, Symbol>,
}

impl Symbols {
    /// The symbol of `name`, made if it is new.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(symbol) = self.index.get(name) {
            return *symbol;
        }
        let symbol = Symbol::from_index(self.names.len());
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.index.insert(name, symbol);
        symbol
    }

    /// The symbol of `name`, if it was ever interned.
    pub fn get(&self, name: &str) -> Option<Symbol> {
        self.index.get(name).copied()
    }

    /// The string behind `symbol`.
    pub fn resolve(&self, symbol: Symbol) -> &Arc<str> {
        &self.names[symbol.index()]
    }
}

/// As it is written down: a symbol is its name's place in the list.
#[derive(Deserialize)]
struct SymbolNames {
    names: Vec<Arc<str>>,
}

impl From<SymbolNames> for Symbols {
    fn from(written: SymbolNames) -> Self {
        let mut symbols = Self::default();
        for name in &written.names {
            symbols.intern(name);
        }
        symbols
    }
}
