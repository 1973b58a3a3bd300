//! What became of a write that tells something.

use http::StatusCode;

use super::call::{Answer, NoAnswer, says_nothing};

/// What became of a write that tells something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It was taken.
    Done,
    /// There is nobody to tell.
    Gone,
    /// It was refused, and would be again.
    Refused,
    /// It was refused for now, or there was no answer.
    Unsure,
}

impl Told {
    /// What an answer comes to.
    pub fn of(answer: &Result<Answer, NoAnswer>) -> Self {
        match answer {
            Ok(answer) => Self::of_status(answer.code),
            Err(NoAnswer::Deposed | NoAnswer::Unknown(_)) => Self::Unsure,
        }
    }

    fn of_status(code: StatusCode) -> Self {
        match code {
            code if code.is_success() => Self::Done,
            // The pod is gone, or another one has its name: there is nobody to tell.
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Self::Gone,
            // Credentials come anew.
            StatusCode::UNAUTHORIZED => Self::Unsure,
            code if code.is_client_error() && !says_nothing(code) => Self::Refused,
            _ => Self::Unsure,
        }
    }

    /// Whether nothing is left to be written.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Gone)
    }
}
