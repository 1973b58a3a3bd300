//! What is wrong with a configuration.

use gpu_scheduler_cluster::config::{ConfigError as FileError, ConfigProblem, plain_words};
use serde_saphyr::Error as YamlError;
use thiserror::Error;

use super::select::SelectError;

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read, or makes no sense.
    #[error(transparent)]
    File(#[from] FileError),
    /// None of the files is this node's.
    #[error(transparent)]
    Select(#[from] SelectError),
}

impl From<ConfigProblem> for ConfigError {
    fn from(problem: ConfigProblem) -> Self {
        Self::File(FileError::Content(problem))
    }
}

/// The reader's error in our words, without its place.
pub(super) fn words(error: &YamlError) -> String {
    match error.without_snippet() {
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value {variant:?}; known are {}", expected.join(", "))
        }
        _ => plain_words(error),
    }
}
