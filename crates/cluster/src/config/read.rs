//! A configuration as YAML, and what is wrong with it.

use std::path::{Path, PathBuf};

use serde_saphyr::Error as YamlError;
use thiserror::Error;

use super::RunConfig;
use super::problem::{ConfigProblem, plain_words, read_yaml};
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
        let mut config: Self = read_yaml(text, words)?;
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
        _ => plain_words(error),
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
