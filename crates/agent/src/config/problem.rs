//! What is wrong with a configuration.

use std::path::{Path, PathBuf};

use serde_saphyr::Error as YamlError;
use thiserror::Error;

use super::select::SelectError;

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It makes no sense.
    #[error("{0}")]
    Content(ConfigProblem),
    /// None of the files is this node's.
    #[error(transparent)]
    Select(#[from] SelectError),
}

/// Something that is wrong or has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{what}", self.place())]
pub struct ConfigProblem {
    /// The file, if it was read from one.
    pub file: Option<PathBuf>,
    /// The line, as far as known.
    pub line: Option<u64>,
    /// The path of the field, such as `sharing.mps.resources[0].replicas`, or a variable; empty for the whole.
    pub field: String,
    /// What is wrong, and what to write.
    pub what: String,
}

impl ConfigProblem {
    pub(super) fn of_field(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: None, line: None, field: field.into(), what: what.into() }
    }

    /// A problem of this file, unless one is known already.
    pub(super) fn in_file(self, path: Option<&Path>) -> Self {
        Self { file: self.file.or_else(|| path.map(Path::to_owned)), ..self }
    }

    fn place(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.file.as_ref().map(|file| file.display().to_string()));
        parts.extend(self.line.map(|line| format!("line {line}")));
        if !self.field.is_empty() {
            parts.push(format!("field {}", self.field));
        }
        if parts.is_empty() { String::new() } else { parts.join(", ") + ": " }
    }
}

/// The reader's error in our words, without its place.
pub(super) fn words(error: &YamlError) -> String {
    match error.without_snippet() {
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value {variant:?}; known are {}", expected.join(", "))
        }
        YamlError::SerdeMissingField { field, .. } => format!("{field} is missing; add it"),
        YamlError::DuplicateMappingKey { key, .. } => {
            format!("{} stands here twice; leave one out", key.as_deref().unwrap_or("a field"))
        }
        other => {
            let text = other.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            let first = text.lines().next().unwrap_or_default();
            first.split(" at line ").next().unwrap_or(first).to_owned()
        }
    }
}
