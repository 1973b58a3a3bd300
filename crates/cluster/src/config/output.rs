//! What the process writes beside its metrics: log lines and the journal.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::{Bounded, Memory};

/// The log on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// How a line looks.
    pub format: LogFormat,
    /// What is worth a line.
    pub level: LogLevel,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is worth a line: this, and what is graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What may fail soon, or was odd.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// Why it happened.
    Debug,
    /// All.
    Trace,
}

impl LogLevel {
    /// The level as filters write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The journal: all that the engine was told, so that its decisions can be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Journal {
    /// The folder for its files.
    pub directory: PathBuf,
    /// The size at which a new file is begun.
    #[serde(default = "Journal::default_file_size")]
    pub max_file_size: Memory,
    /// How many files are kept; the oldest goes first.
    #[serde(default = "Journal::default_files")]
    pub max_files: Bounded<1, 10_000>,
}

impl Journal {
    /// In this folder, with the defaults.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), max_file_size: Self::default_file_size(), max_files: Self::default_files() }
    }

    fn default_file_size() -> Memory {
        Memory::mib(64)
    }

    fn default_files() -> Bounded<1, 10_000> {
        const FILES: Bounded<1, 10_000> = Bounded::new(16).expect("16 is in the range");
        FILES
    }

    /// What no single field's type shows to be wrong.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if self.directory.as_os_str().is_empty() {
            return Some(("directory", "it is empty; write a folder, or leave the journal out".to_owned()));
        }
        (self.max_file_size < Memory::mib(1))
            .then(|| ("maxFileSize", "it is zero; write an amount such as 64Mi".to_owned()))
    }
}
