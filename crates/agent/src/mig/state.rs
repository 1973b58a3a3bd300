//! What is said of a node's MIG configuration.

use std::fmt;

/// The value of the label `nvidia.com/mig.config.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigState {
    /// Cards are being cut.
    Pending,
    /// A card's mode changes at its next reset, and somebody is to reboot the node for it.
    Rebooting,
    /// All cards are as the label wants them.
    Success,
    /// They are not.
    Failed,
}

impl MigState {
    /// As the label has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Rebooting => "rebooting",
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for MigState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is said of a node's MIG configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigStatus {
    /// The state.
    pub state: MigState,
    /// Why, where it is not success: card by card, with what to do.
    pub reason: Option<String>,
}

impl MigStatus {
    /// A state that needs no reason.
    pub(super) fn plain(state: MigState) -> Self {
        Self { state, reason: None }
    }

    /// A failure.
    pub(super) fn failed(reason: impl Into<String>) -> Self {
        Self { state: MigState::Failed, reason: Some(reason.into()) }
    }
}
