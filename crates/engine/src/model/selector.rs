//! Node selectors: `nodeSelector` and node affinity.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::model::{Symbol, Symbols};

/// How a requirement compares a label with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is missing.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is an integer greater than the value.
    Gt,
    /// The label is an integer less than the value.
    Lt,
}

/// One requirement on a label or field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// Label key, or field name.
    pub key: String,
    /// How to compare.
    pub operator: Operator,
    /// With what.
    pub values: Vec<String>,
}

/// One term: all of its requirements hold. A term without requirements matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    /// On labels.
    pub expressions: Vec<Requirement>,
    /// On fields; only `metadata.name` exists.
    pub fields: Vec<Requirement>,
}

/// Terms of which one must match. No term at all matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeSelector {
    /// The terms.
    pub terms: Vec<NodeSelectorTerm>,
}

/// A preferred term with its weight, 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreferredTerm {
    /// Weight.
    pub weight: i32,
    /// The term.
    pub term: NodeSelectorTerm,
}

/// A [`Requirement`] with interned strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CompiledRequirement {
    /// The label has one of the values.
    In(Symbol, SmallVec<[Symbol; 2]>),
    /// The label has none of the values, or is missing.
    NotIn(Symbol, SmallVec<[Symbol; 2]>),
    /// The label is there.
    Exists(Symbol),
    /// The label is not there.
    DoesNotExist(Symbol),
    /// The label is an integer greater than this.
    Gt(Symbol, i64),
    /// The label is an integer less than this.
    Lt(Symbol, i64),
}

impl CompiledRequirement {
    /// `None` where the requirement is malformed: then its term matches nothing.
    pub(super) fn new(requirement: &Requirement, symbols: &mut Symbols) -> Option<Self> {
        let key = symbols.intern(&requirement.key);
        let values = &requirement.values;
        let integer = || match values.as_slice() {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        Some(match requirement.operator {
            Operator::In | Operator::NotIn if values.is_empty() => return None,
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => return None,
            Operator::In => Self::In(key, values.iter().map(|v| symbols.intern(v)).collect()),
            Operator::NotIn => Self::NotIn(key, values.iter().map(|v| symbols.intern(v)).collect()),
            Operator::Exists => Self::Exists(key),
            Operator::DoesNotExist => Self::DoesNotExist(key),
            Operator::Gt => Self::Gt(key, integer()?),
            Operator::Lt => Self::Lt(key, integer()?),
        })
    }

    /// The label that it looks at.
    pub fn key(&self) -> Symbol {
        match self {
            Self::In(key, _) | Self::NotIn(key, _) | Self::Exists(key) | Self::DoesNotExist(key) => *key,
            Self::Gt(key, _) | Self::Lt(key, _) => *key,
        }
    }

    /// Whether it holds where `label` looks labels up.
    pub fn holds(&self, symbols: &Symbols, label: impl Fn(Symbol) -> Option<Symbol>) -> bool {
        let integer = |key: &Symbol| label(*key).and_then(|v| symbols.resolve(v).parse::<i64>().ok());
        match self {
            Self::In(key, values) => label(*key).is_some_and(|v| values.contains(&v)),
            Self::NotIn(key, values) => label(*key).is_none_or(|v| !values.contains(&v)),
            Self::Exists(key) => label(*key).is_some(),
            Self::DoesNotExist(key) => label(*key).is_none(),
            Self::Gt(key, bound) => integer(key).is_some_and(|v| v > *bound),
            Self::Lt(key, bound) => integer(key).is_some_and(|v| v < *bound),
        }
    }
}

/// A usable term: at least one requirement, none malformed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CompiledTerm {
    labels: Vec<CompiledRequirement>,
    /// Node names it demands (all of these lists must hold the node) …
    names_in: Vec<Symbol>,
    /// … and node names that it refuses.
    names_not_in: Vec<Symbol>,
}

impl CompiledTerm {
    /// `None` where the term can match nothing: empty or malformed.
    pub fn new(term: &NodeSelectorTerm, symbols: &mut Symbols) -> Option<Self> {
        if term.expressions.is_empty() && term.fields.is_empty() {
            return None;
        }
        let mut compiled = Self { labels: Vec::new(), names_in: Vec::new(), names_not_in: Vec::new() };
        for requirement in &term.expressions {
            compiled.labels.push(CompiledRequirement::new(requirement, symbols)?);
        }
        for field in &term.fields {
            // The API allows only this field, with exactly one value.
            let ("metadata.name", [value]) = (field.key.as_str(), field.values.as_slice()) else {
                return None;
            };
            match field.operator {
                Operator::In => compiled.names_in.push(symbols.intern(value)),
                Operator::NotIn => compiled.names_not_in.push(symbols.intern(value)),
                _ => return None,
            }
        }
        Some(compiled)
    }

    /// Whether the node called `name` with the labels behind `label` matches.
    pub fn matches(&self, symbols: &Symbols, name: Symbol, label: impl Fn(Symbol) -> Option<Symbol> + Copy) -> bool {
        self.names_in.iter().all(|n| *n == name)
            && !self.names_not_in.contains(&name)
            && self.labels.iter().all(|r| r.holds(symbols, label))
    }
}

/// `nodeSelector` and required node affinity of a pod, compiled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CompiledSelector {
    /// Pairs of `nodeSelector`, sorted.
    pairs: Vec<(Symbol, Symbol)>,
    /// Usable terms; `Some` and empty matches nothing.
    terms: Option<Vec<CompiledTerm>>,
}

impl CompiledSelector {
    /// Compiles both.
    pub fn new<'a>(
        pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
        required: Option<&NodeSelector>,
        symbols: &mut Symbols,
    ) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(k, v)| (symbols.intern(k), symbols.intern(v))).collect();
        pairs.sort_unstable();
        let terms = required.map(|r| r.terms.iter().filter_map(|t| CompiledTerm::new(t, symbols)).collect());
        Self { pairs, terms }
    }

    /// Whether the node called `name` with the labels behind `label` matches.
    pub fn matches(&self, symbols: &Symbols, name: Symbol, label: impl Fn(Symbol) -> Option<Symbol> + Copy) -> bool {
        self.pairs.iter().all(|(k, v)| label(*k) == Some(*v))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(symbols, name, label)))
    }

    /// The only nodes that can match, where every term names its node: a sorted list.
    /// `Some(empty)` means that the terms contradict themselves.
    pub fn only_nodes(&self) -> Option<Vec<Symbol>> {
        let terms = self.terms.as_ref().filter(|t| !t.is_empty())?;
        let mut names = Vec::new();
        for term in terms {
            let (first, rest) = term.names_in.split_first()?;
            if rest.iter().all(|n| n == first) {
                names.push(*first);
            }
        }
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}
