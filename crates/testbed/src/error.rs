//! What is wrong with a scenario, and where.

use thiserror::Error;

/// A scenario that cannot be read or played, or whose play broke an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {what}")]
pub struct ScenarioError {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}
