//! Which plugins a configuration adds to a profile or takes out of it.

use thiserror::Error;

use crate::framework::PluginName;

/// An extension point whose plugins can be chosen by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionPoint {
    /// Looks at the pod before any node.
    PreFilter,
    /// Says whether a node will do.
    Filter,
    /// Says how good a node is.
    Score,
}

impl ExtensionPoint {
    /// Its name as Kubernetes' configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::Score => "score",
        }
    }
}

/// Which plugins of a point to take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disabled<'a> {
    /// All that can be.
    All,
    /// This one.
    Named(&'a str),
}

/// Why a plugin cannot be chosen so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChoiceError {
    /// There is none of that name at the point.
    #[error("there is no {} plugin {name:?}; known are {}", point.name(), known.join(", "))]
    Unknown {
        /// Where it was looked for.
        point: ExtensionPoint,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<PluginName>,
    },
    /// It must stay.
    #[error("the {} plugin {name} cannot be disabled: it keeps GPUs from being given out twice", point.name())]
    Required {
        /// Where.
        point: ExtensionPoint,
        /// Its name.
        name: String,
    },
}
