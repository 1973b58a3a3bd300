//! Which of several files a node takes: the label `nvidia.com/device-plugin.config` names it.

use std::collections::BTreeSet;

use thiserror::Error;

/// The node label that names the file.
pub const LABEL: &str = "nvidia.com/device-plugin.config";

/// What is tried in turn where neither the label nor a default names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The file `default`.
    Named,
    /// The only file there is.
    Single,
    /// No file at all.
    Empty,
}

impl std::str::FromStr for Fallback {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "named" => Ok(Self::Named),
            "single" => Ok(Self::Single),
            "empty" => Ok(Self::Empty),
            _ => Err("known are named, single and empty".to_owned()),
        }
    }
}

/// What a node takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This file.
    File(String),
    /// None: the defaults.
    Nothing,
}

/// Why it takes none of them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectError {
    /// A file is named that is not there.
    #[error("{by} names the configuration {name:?}, and there is none; there are {}", list(known))]
    Missing {
        /// What names it.
        by: &'static str,
        /// The name.
        name: String,
        /// What there is.
        known: BTreeSet<String>,
    },
    /// Nothing names one.
    #[error(
        "the node has no label {LABEL}, and no fallback finds a configuration among {}; set the label, or allow the \
         fallback empty",
        list(known)
    )]
    Unnamed {
        /// What there is.
        known: BTreeSet<String>,
    },
}

fn list(known: &BTreeSet<String>) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    known.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The file for a node with this label (empty counts as none), among the files `known`.
///
/// # Errors
/// [`SelectError`] if a name leads nowhere. Nothing is guessed then: what was in effect stays so.
pub fn select(
    label: Option<&str>,
    default: Option<&str>,
    known: &BTreeSet<String>,
    fallbacks: &[Fallback],
) -> Result<Choice, SelectError> {
    let named = [("the node's label", label), ("the default", default)];
    for (by, name) in named {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            if known.contains(name) {
                return Ok(Choice::File(name.to_owned()));
            }
            return Err(SelectError::Missing { by, name: name.to_owned(), known: known.clone() });
        }
    }
    let tried = fallbacks.iter().find_map(|fallback| match fallback {
        Fallback::Named => known.contains("default").then(|| Choice::File("default".to_owned())),
        Fallback::Single => match known.iter().collect::<Vec<_>>()[..] {
            [only] => Some(Choice::File(only.clone())),
            _ => None,
        },
        Fallback::Empty => Some(Choice::Nothing),
    });
    tried.ok_or_else(|| SelectError::Unnamed { known: known.clone() })
}
