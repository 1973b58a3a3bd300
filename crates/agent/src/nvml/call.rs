//! Calls whose failure must be known by name: those that change a card.

use nvml_wrapper::error::NvmlError;
use thiserror::Error;

use super::fault::is_unsupported;

/// A call that failed.
#[derive(Debug, Error)]
#[error("{call} failed: {error}")]
pub struct CallError {
    /// Its name in NVML.
    pub call: &'static str,
    /// What it answered.
    #[source]
    pub error: NvmlError,
}

impl CallError {
    /// Whether the card or driver does not have this at all.
    pub fn is_unsupported(&self) -> bool {
        is_unsupported(&self.error)
    }
}

/// Makes the call and names it if it fails.
pub(super) fn named<T>(call: &'static str, make: impl FnOnce() -> Result<T, NvmlError>) -> Result<T, CallError> {
    #[cfg(test)]
    probe::before(call).map_err(|error| CallError { call, error })?;
    make().map_err(|error| CallError { call, error })
}

/// `None` where the card or driver does not have it.
pub(super) fn optional<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets a test see each call before it is made, and make it fail.
#[cfg(test)]
pub(crate) mod probe {
    use std::cell::RefCell;

    use nvml_wrapper::error::NvmlError;

    type Probe = Box<dyn FnMut(&'static str) -> Result<(), NvmlError>>;

    thread_local! {
        static PROBE: RefCell<Option<Probe>> = const { RefCell::new(None) };
    }

    pub(super) fn before(call: &'static str) -> Result<(), NvmlError> {
        PROBE.with_borrow_mut(|probe| probe.as_mut().map_or(Ok(()), |probe| probe(call)))
    }

    /// Sets what calls of this thread are shown to.
    pub(crate) fn set(probe: Option<Probe>) {
        PROBE.set(probe);
    }
}
