//! Taints and tolerations.

use serde::{Deserialize, Serialize};

use crate::model::{Symbol, Symbols};

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// No new pod.
    NoSchedule,
    /// Rather no new pod.
    PreferNoSchedule,
    /// No pod at all.
    NoExecute,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// How a toleration's key and value are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Toleration {
    /// Key; empty means any.
    pub key: String,
    /// How to compare.
    pub operator: TolerationOperator,
    /// Value for [`TolerationOperator::Equal`].
    pub value: String,
    /// Effect; `None` means any.
    pub effect: Option<Effect>,
}

/// A [`Taint`] with interned strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CompiledTaint {
    /// Key.
    pub key: Symbol,
    /// Value.
    pub value: Symbol,
    /// What it does.
    pub effect: Effect,
}

impl CompiledTaint {
    /// Interns `taint`.
    pub fn new(taint: &Taint, symbols: &mut Symbols) -> Self {
        Self { key: symbols.intern(&taint.key), value: symbols.intern(&taint.value), effect: taint.effect }
    }
}

/// A [`Toleration`] with interned strings; `None` matches anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CompiledToleration {
    key: Option<Symbol>,
    value: Option<Symbol>,
    effect: Option<Effect>,
}

impl CompiledToleration {
    /// Interns `toleration`.
    pub fn new(toleration: &Toleration, symbols: &mut Symbols) -> Self {
        Self {
            key: (!toleration.key.is_empty()).then(|| symbols.intern(&toleration.key)),
            value: match toleration.operator {
                TolerationOperator::Equal => Some(symbols.intern(&toleration.value)),
                TolerationOperator::Exists => None,
            },
            effect: toleration.effect,
        }
    }

    /// Whether it tolerates `taint`.
    pub fn tolerates(&self, taint: &CompiledTaint) -> bool {
        self.effect.is_none_or(|e| e == taint.effect)
            && self.key.is_none_or(|k| k == taint.key)
            && self.value.is_none_or(|v| v == taint.value)
    }

    /// Whether it speaks of [`Effect::PreferNoSchedule`] (or of every effect).
    pub fn covers_preference(&self) -> bool {
        self.effect.is_none_or(|e| e == Effect::PreferNoSchedule)
    }
}
