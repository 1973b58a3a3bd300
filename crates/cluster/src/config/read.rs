//! A configuration as YAML, and what is wrong with it.

use std::path::{Path, PathBuf};

use serde_saphyr::Error as YamlError;
use thiserror::Error;

use super::RunConfig;
use super::suggest::did_you_mean;
use super::values::ObjectName;

/// Where a pod's service account has its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

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
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{what}", self.place())]
pub struct ConfigProblem {
    /// The file, if it was read from one.
    pub file: Option<PathBuf>,
    /// The line, as far as known.
    pub line: Option<u64>,
    /// The path of the field, such as `profiles[0].policy`; empty for the whole.
    pub field: String,
    /// What is wrong, and what to write.
    pub what: String,
}

impl ConfigProblem {
    pub(super) fn of_field(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: None, line: None, field: field.into(), what: what.into() }
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

impl RunConfig {
    /// Reads the configuration of `path`, or takes the defaults without one. The lease's namespace is that of the pod
    /// that this runs in, where the file says none.
    ///
    /// # Errors
    /// If the file cannot be read or makes no sense.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let own = own_namespace();
        let Some(path) = path else {
            let mut config = Self::default();
            config.leader_election.resource_namespace = None;
            config.leader_election.settle(own);
            return Ok(config);
        };
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        Self::parse_in(&text, own)
            .map_err(|problem| ConfigError::Content(ConfigProblem { file: Some(path.to_owned()), ..problem }))
    }

    /// Reads a configuration from its text, YAML or JSON; the lease is in `kube-system` where it says nothing.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        Self::parse_in(text, None)
    }

    /// As [`RunConfig::parse`], with the namespace of the pod that this runs in.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse_in(text: &str, own_namespace: Option<ObjectName>) -> Result<Self, ConfigProblem> {
        let options = serde_saphyr::options! { with_snippet: false };
        let mut field = String::new();
        let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                field = error.path().to_string();
                error.into_inner()
            })
        });
        let mut config: Self = read.map_err(|error| {
            // A path without a name yet says no more than the line.
            let field = if matches!(field.as_str(), "." | "?") { String::new() } else { std::mem::take(&mut field) };
            let line = error.location().map(|at| at.line());
            ConfigProblem { file: None, line, field, what: words(&error) }
        })?;
        config.leader_election.settle(own_namespace);
        config.check()?;
        Ok(config)
    }
}

/// The namespace of the pod that this runs in.
fn own_namespace() -> Option<ObjectName> {
    std::fs::read_to_string(OWN_NAMESPACE).ok()?.trim().parse().ok()
}

/// The error in our words, without its place.
fn words(error: &YamlError) -> String {
    match error.without_snippet() {
        YamlError::SerdeUnknownField { field, expected, .. } => unknown("field", field, expected),
        YamlError::SerdeUnknownVariant { variant, expected, .. } => unknown("value", variant, expected),
        YamlError::Eof { .. } | YamlError::SerdeMissingField { field: "apiVersion" | "kind", .. } => {
            "the file does not say what it is; begin it with apiVersion: gpu-scheduler.io/v1alpha1 and \
             kind: SchedulerConfiguration"
                .to_owned()
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

fn unknown(what: &str, written: &str, expected: &[&'static str]) -> String {
    match expected {
        [only] => format!("unknown {what} {written:?}; write {only}"),
        _ => {
            let nearest = did_you_mean(written, expected.iter().copied());
            format!("unknown {what} {written:?}; known are {}{nearest}", expected.join(", "))
        }
    }
}
