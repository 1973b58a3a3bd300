//! Names of resources.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const PREFIX: &str = "nvidia.com/";
/// Longest name that NVIDIA's plugin takes, with its prefix.
const LONGEST: usize = 63;

/// A resource of NVIDIA's: `nvidia.com/` and a DNS subdomain, at most 63 characters in all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceName(Box<str>);

/// Why a text is no such name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Its prefix is another's.
    #[error("{0:?} is not of {PREFIX}; write a name such as nvidia.com/gpu")]
    Prefix(String),
    /// It is too long.
    #[error("{0:?} has more than the {LONGEST} characters that a resource's name may have")]
    Long(String),
    /// What stands behind the prefix cannot be a name.
    #[error(
        "{0:?} is not a name: behind {PREFIX} stand small letters, digits, dashes and dots, with a letter or digit at \
         each end of what is between dots"
    )]
    Characters(String),
}

impl ResourceName {
    /// The name; without a prefix it gets NVIDIA's.
    ///
    /// # Errors
    /// [`NameError`] if it cannot be one.
    pub fn nvidia(text: &str) -> Result<Self, NameError> {
        let (short, full) = match (text.strip_prefix(PREFIX), text.contains('/')) {
            (Some(short), _) => (short, text.to_owned()),
            (None, false) => (text, format!("{PREFIX}{text}")),
            (None, true) => return Err(NameError::Prefix(text.to_owned())),
        };
        if full.len() > LONGEST {
            return Err(NameError::Long(full));
        }
        let ends = |label: &str| [label.chars().next(), label.chars().last()].map(|c| c.is_some_and(|c| c != '-'));
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !short.split('.').all(|label| label.chars().all(allowed) && ends(label) == [true, true]) {
            return Err(NameError::Characters(full));
        }
        Ok(Self(full.into()))
    }

    /// Whole cards.
    pub fn gpu() -> Self {
        Self("nvidia.com/gpu".into())
    }

    /// What this is called where it is shared under another name: `<name>.shared`.
    ///
    /// # Errors
    /// [`NameError::Long`].
    pub fn shared(&self) -> Result<Self, NameError> {
        Self::nvidia(&format!("{}.shared", self.0))
    }

    /// With its prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without it.
    pub fn short(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
