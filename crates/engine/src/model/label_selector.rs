//! Label selectors: which pods, or which namespaces, something is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::selector::CompiledRequirement;
use crate::model::{Operator, Requirement, Symbol, Symbols};

/// A label selector (`metav1.LabelSelector`): all requirements must hold; without any it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LabelSelector {
    /// `matchLabels` and `matchExpressions`.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// The selector of `matchLabels` alone.
    pub fn of_labels<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let equal = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        };
        Self { requirements: labels.into_iter().map(equal).collect() }
    }

    /// Whether it matches these labels: for what is asked seldom; what is asked often is compiled.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|r| {
            let value = labels.get(&r.key);
            match r.operator {
                Operator::In => value.is_some_and(|v| r.values.contains(v)),
                Operator::NotIn => value.is_none_or(|v| !r.values.contains(v)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                // Not to be had in a label selector.
                Operator::Gt | Operator::Lt => false,
            }
        })
    }
}

/// A label selector with interned strings; one that is malformed, or not there at all, matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CompiledLabels {
    /// `None` matches nothing.
    requirements: Option<Vec<CompiledRequirement>>,
}

impl CompiledLabels {
    /// Compiles a selector.
    pub fn new(selector: Option<&LabelSelector>, symbols: &mut Symbols) -> Self {
        let compile = |s: &LabelSelector| s.requirements.iter().map(|r| CompiledRequirement::new(r, symbols)).collect();
        let mut requirements: Option<Vec<_>> = selector.and_then(compile);
        if let Some(requirements) = &mut requirements {
            requirements.sort();
            requirements.dedup();
        }
        Self { requirements }
    }

    /// The selector that matches what both match.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.requirements = match (self.requirements.take(), other.requirements) {
            (Some(mut ours), Some(theirs)) => {
                ours.extend(theirs);
                ours.sort();
                ours.dedup();
                Some(ours)
            }
            _ => None,
        };
        self
    }

    /// Whether it matches what has the labels behind `label`.
    pub fn matches(&self, symbols: &Symbols, label: impl Fn(Symbol) -> Option<Symbol> + Copy) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|r| r.holds(symbols, label)))
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The label keys that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.requirements.iter().flatten().map(CompiledRequirement::key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key: key.into(), operator, values: values.iter().map(|v| (*v).to_owned()).collect() }
    }

    #[test]
    fn both_forms_agree() {
        use Operator::{DoesNotExist, Exists, In, NotIn};
        let labels: BTreeMap<String, String> = [("app".into(), "a".into()), ("tier".into(), "web".into())].into();
        for (requirements, expected) in [
            (vec![], true),
            (vec![requirement("app", In, &["a", "b"])], true),
            (vec![requirement("app", In, &["b"])], false),
            (vec![requirement("app", NotIn, &["b"]), requirement("tier", Exists, &[])], true),
            (vec![requirement("zone", NotIn, &["b"])], true),
            (vec![requirement("zone", DoesNotExist, &[])], true),
            (vec![requirement("app", In, &["a"]), requirement("zone", Exists, &[])], false),
        ] {
            let selector = LabelSelector { requirements };
            assert_eq!(selector.matches(&labels), expected, "{selector:?}");
            let mut symbols = Symbols::default();
            let interned: Vec<_> = labels.iter().map(|(k, v)| (symbols.intern(k), symbols.intern(v))).collect();
            let compiled = CompiledLabels::new(Some(&selector), &mut symbols);
            let label = |key| interned.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
            assert_eq!(compiled.matches(&symbols, label), expected, "{selector:?}");
        }
    }

    #[test]
    fn no_selector_matches_nothing() {
        let mut symbols = Symbols::default();
        let nothing = CompiledLabels::new(None, &mut symbols);
        assert!(!nothing.matches(&symbols, |_| None));
        let everything = CompiledLabels::new(Some(&LabelSelector::default()), &mut symbols);
        assert!(everything.matches(&symbols, |_| None));
        assert!(!everything.and(nothing).matches(&symbols, |_| None));
    }
}
