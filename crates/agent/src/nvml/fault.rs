//! What a failed call means: a value that there is not, a card that is not there, or something to be said once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings as sys;

use crate::inventory::GpuUuid;

/// Why nothing can be done with a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardFault {
    /// It fell off the bus, or does not answer for another reason.
    Lost,
    /// It answers only that it has to be reset.
    ResetRequired,
    /// The driver no longer knows its UUID.
    Unknown,
}

impl fmt::Display for CardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "GPU is lost",
            Self::ResetRequired => "GPU requires a reset",
            Self::Unknown => "GPU is not found",
        })
    }
}

impl CardFault {
    /// The fault behind an error, if it is the card's and not the call's.
    pub fn of(error: &NvmlError) -> Option<Self> {
        match error {
            NvmlError::GpuLost => Some(Self::Lost),
            NvmlError::ResetRequired => Some(Self::ResetRequired),
            _ => None,
        }
    }
}

/// Whether the error says that this card or driver has no such value, which is no failure.
pub(super) fn is_unsupported(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::NoData
            | NvmlError::UnexpectedVariant(
                sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH
                    | sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED
                    | sys::nvmlReturn_enum_NVML_ERROR_NOT_READY
            )
    )
}

/// Whether the error says that the driver is gone, so that the library has to be opened again.
pub(super) fn driver_is_gone(error: &NvmlError) -> bool {
    matches!(error, NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch)
}

/// Calls that fail, said when they begin to and when they work again, and counted.
#[derive(Debug, Default)]
pub struct Failures {
    open: BTreeSet<(GpuUuid, &'static str)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Failures {
    /// How often each call failed so far, by its name in NVML.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Counts a failure; whether it is the first in a row, and so worth saying.
    fn failed(&mut self, card: &GpuUuid, call: &'static str) -> bool {
        *self.counts.entry(call).or_default() += 1;
        self.open.insert((card.clone(), call))
    }

    /// Whether the call failed before.
    fn worked(&mut self, card: &GpuUuid, call: &'static str) -> bool {
        !self.open.is_empty() && self.open.remove(&(card.clone(), call))
    }
}

/// The calls of one look at one card. Once the card is found lost, no more are made.
pub(super) struct Calls<'a> {
    card: &'a GpuUuid,
    failures: &'a mut Failures,
    fault: Option<CardFault>,
}

impl<'a> Calls<'a> {
    pub fn of(card: &'a GpuUuid, failures: &'a mut Failures) -> Self {
        Self { card, failures, fault: None }
    }

    /// What the call gives; `None` where it gives nothing, which is said once if it should have.
    pub fn value<T>(&mut self, call: &'static str, make: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        match make() {
            Ok(value) => {
                if self.failures.worked(self.card, call) {
                    tracing::info!(card = %self.card, call, "the call works again");
                }
                Some(value)
            }
            Err(error) if is_unsupported(&error) => None,
            Err(error) => {
                self.fault = CardFault::of(&error);
                if self.fault.is_none() && self.failures.failed(self.card, call) {
                    tracing::warn!(card = %self.card, call, %error, "NVML gives no value; what depends on it is left out");
                }
                None
            }
        }
    }

    /// What was found of the card.
    pub fn fault(&self) -> Option<CardFault> {
        self.fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_and_counted_each_time() {
        let mut failures = Failures::default();
        let card = GpuUuid::from("GPU-1");
        assert!(failures.failed(&card, "a"));
        assert!(!failures.failed(&card, "a"));
        assert!(failures.failed(&GpuUuid::from("GPU-2"), "a"));
        assert!(failures.worked(&card, "a"));
        assert!(!failures.worked(&card, "a"));
        assert!(failures.failed(&card, "a"));
        assert_eq!(failures.counts()["a"], 4);
    }

    #[test]
    fn a_lost_card_is_asked_nothing_more() {
        let mut failures = Failures::default();
        let card = GpuUuid::from("GPU-1");
        let mut calls = Calls::of(&card, &mut failures);
        assert_eq!(calls.value("a", || Ok(1)), Some(1));
        assert_eq!(calls.value::<u32>("b", || Err(NvmlError::NotSupported)), None);
        assert_eq!(calls.value::<u32>("c", || Err(NvmlError::Unknown)), None);
        assert_eq!(calls.value::<u32>("d", || Err(NvmlError::GpuLost)), None);
        assert_eq!(calls.value("e", || -> Result<u32, _> { panic!("asked") }), None);
        assert_eq!(calls.fault(), Some(CardFault::Lost));
        assert_eq!(failures.counts().keys().copied().collect::<Vec<_>>(), ["c"], "a lost card is no failed call");
    }
}
