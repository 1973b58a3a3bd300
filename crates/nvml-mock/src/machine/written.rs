//! What NVML's own calls have changed on a node. It outlives the process that called, as the state of a card does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Unreadable;
use crate::describe::{ComputeMode, Invalid, Mig};

/// The changes, by the card's UUID. The file is the description's with `.state` behind it; to remove it is a reboot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Written {
    /// The cards that were changed.
    pub cards: BTreeMap<String, WrittenCard>,
}

/// The changes of one card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct WrittenCard {
    /// Takes the place of what the description says, as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// Takes the place of what the description says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<ComputeMode>,
}

impl Written {
    /// The file that goes with a description.
    pub fn file(description: &Path) -> PathBuf {
        let mut name = OsString::from(description);
        name.push(".state");
        PathBuf::from(name)
    }

    /// Reads the text of the file; an empty one says nothing.
    ///
    /// # Errors
    ///
    /// If the text is none of ours.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|error| Invalid(crate::describe::first_line(&error)))
    }

    /// Reads what goes with a description.
    ///
    /// # Errors
    ///
    /// If the file is there and cannot be read.
    pub fn read(description: &Path) -> Result<Self, Unreadable> {
        let file = Self::file(description);
        let text = read_if_there(&file).map_err(|error| Unreadable::File { file: file.clone(), error })?;
        Self::parse(&text.unwrap_or_default()).map_err(|error| Unreadable::Invalid { file, error })
    }

    /// Writes what goes with a description, in one step.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, description: &Path) -> io::Result<()> {
        let text = serde_saphyr::to_string(self).expect("every change can be written");
        crate::files::replace(&Self::file(description), &text)
    }
}

/// The text of a file, or nothing if there is none.
pub(crate) fn read_if_there(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
