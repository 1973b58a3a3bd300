//! What is wrong with a configuration, and reading YAML so that it is known where.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_saphyr::Error as YamlError;
use thiserror::Error;

/// Something that is wrong with a configuration, or has no effect in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{what}", self.place())]
pub struct ConfigProblem {
    /// The file, if it was read from one.
    pub file: Option<PathBuf>,
    /// The line, as far as known.
    pub line: Option<u64>,
    /// The path of the field, such as `profiles[0].policy`, or a variable; empty for the whole.
    pub field: String,
    /// What is wrong, and what to write.
    pub what: String,
}

impl ConfigProblem {
    /// A problem of a field, wherever that is written.
    pub fn of_field(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: None, line: None, field: field.into(), what: what.into() }
    }

    /// A problem of this file, unless one is known already.
    #[must_use]
    pub fn in_file(self, path: Option<&Path>) -> Self {
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

/// Reads YAML or JSON. What is wrong is said in `words`, such as [`plain_words`].
///
/// # Errors
/// If it is not of the type's shape, with line and field.
pub fn read_yaml<T: DeserializeOwned>(
    text: &str,
    words: impl FnOnce(&YamlError) -> String,
) -> Result<T, ConfigProblem> {
    let options = serde_saphyr::options! { with_snippet: false };
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|error| {
        // A path without a name yet says no more than the line.
        let field = if matches!(field.as_str(), "." | "?") { String::new() } else { std::mem::take(&mut field) };
        let line = error.location().map(|at| at.line());
        ConfigProblem { file: None, line, field, what: words(&error) }
    })
}

/// The reader's error in our words, without its place.
pub fn plain_words(error: &YamlError) -> String {
    match error.without_snippet() {
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
