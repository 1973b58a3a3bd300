//! A node as it is: the description with its defaults filled in, and what calls have changed since.

mod card;
mod resolve;
mod written;

pub use card::{Card, MigDevice, MigMode};
pub(crate) use written::read_if_there;
pub use written::{Written, WrittenCard};

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::describe::{Invalid, Node};

/// A node with all its values.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The description; its list of cards is as it was written.
    pub node: Node,
    /// The cards, in the order of their indices.
    pub cards: Vec<Card>,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file says what cannot be.
    #[error("{}: {error}", file.display())]
    Invalid {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        error: Invalid,
    },
}

impl Machine {
    /// Reads a description and what was changed since.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or says what cannot be. That nothing was changed is no error.
    pub fn read(description: &Path) -> Result<Self, Unreadable> {
        let invalid = |file: &Path| {
            let file = file.to_owned();
            move |error| Unreadable::Invalid { file, error }
        };
        let text = fs::read_to_string(description)
            .map_err(|error| Unreadable::File { file: description.to_owned(), error })?;
        let node = Node::parse(&text).map_err(invalid(description))?;
        let written = Written::read(description)?;
        Self::new(node, &written).map_err(invalid(description))
    }

    /// The card with this UUID.
    pub fn card(&self, uuid: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.uuid.eq_ignore_ascii_case(uuid))
    }
}
