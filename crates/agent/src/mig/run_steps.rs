//! Carries out the steps of a change.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::error::NvmlError;
use thiserror::Error;

use super::fit::{Piece, fit};
use super::layout::{Part, Step};
use crate::inventory::Placement;
use crate::nvml::{CallError, Division, MigMode, Partitioner};

/// Why a step was not taken.
#[derive(Debug, Error)]
pub enum StepError {
    /// A call failed.
    #[error("cannot {step}: {source}")]
    Call {
        /// The step.
        step: String,
        /// The call.
        source: CallError,
    },
    /// The mode is to change at the next reset, and not now.
    #[error("MIG is to be {} at the card's next reset only{}", if *.enabled { "on" } else { "off" }, with_reason(.said.as_ref()))]
    Pending {
        /// What it is to be.
        enabled: bool,
        /// What the driver said.
        said: Option<NvmlError>,
    },
    /// The driver did not even take the wish for another mode.
    #[error("the driver did not turn MIG {}{}", if *.enabled { "on" } else { "off" }, with_reason(.said.as_ref()))]
    ModeRefused {
        /// What it should have been.
        enabled: bool,
        /// What the driver said.
        said: Option<NvmlError>,
    },
    /// The parts have no room in their GPU instance.
    #[error("compute instances of {0:?} slices do not fit into their GPU instance")]
    NoRoom(Vec<u32>),
}

fn with_reason(error: Option<&NvmlError>) -> String {
    error.map(|error| format!(" ({error})")).unwrap_or_default()
}

/// Carries out the steps on a card that is cut like `from`, and stops at the first that fails.
///
/// # Errors
/// Why a step was not taken. Those before it were.
pub fn run_steps(card: &Partitioner<'_>, from: &Division, steps: &[Step]) -> Result<(), StepError> {
    let mut numbers: BTreeMap<u32, u32> =
        from.instances.iter().map(|instance| (instance.placement.start, instance.id)).collect();
    for step in steps {
        tracing::info!(card = %card.uuid(), "{step}");
        let fail = |source| StepError::Call { step: step.to_string(), source };
        match step {
            Step::DestroyCompute { gpu, compute } => card.destroy_compute(*gpu, *compute).map_err(fail)?,
            Step::DestroyGpu { gpu } => card.destroy(*gpu).map_err(fail)?,
            Step::Mode { enabled } => set_mode(card, *enabled, fail)?,
            Step::CreateGpu { profile, placement } => {
                let number = card.create(*profile, *placement).map_err(fail)?;
                numbers.insert(placement.start, number);
            }
            Step::Cut { placement, parts } => {
                let number = numbers.get(&placement.start).expect("a step that cuts comes after the one that makes");
                cut(card, *number, parts, fail)?;
            }
        }
    }
    Ok(())
}

fn set_mode(card: &Partitioner<'_>, enabled: bool, fail: impl Fn(CallError) -> StepError) -> Result<(), StepError> {
    let said = card.set_mode(enabled).map_err(&fail)?;
    match card.mode().map_err(&fail)? {
        Some(MigMode { current, .. }) if current == enabled => Ok(()),
        Some(MigMode { pending, .. }) if pending == enabled => Err(StepError::Pending { enabled, said }),
        _ => Err(StepError::ModeRefused { enabled, said }),
    }
}

/// Cuts an empty GPU instance: at the places that are said, and otherwise at some where all have room.
fn cut(
    card: &Partitioner<'_>,
    number: u32,
    parts: &[Part],
    fail: impl Fn(CallError) -> StepError,
) -> Result<(), StepError> {
    // A driver that does not tell places is left to choose them, the largest first.
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| std::cmp::Reverse(part.slices));
    if parts.len() > 1 && parts.iter().all(|part| part.placement.is_none()) {
        let mut known = BTreeMap::new();
        for Part { slices, .. } in &parts {
            let places = card.compute_placements(number, *slices).map_err(&fail)?;
            known.extend(places.map(|places| (*slices, places)));
        }
        place(&mut parts, &known)?;
    }
    for Part { slices, placement } in parts {
        card.create_compute(number, slices, placement).map_err(&fail)?;
    }
    Ok(())
}

/// Finds places for all parts, if the places of all sizes are known.
fn place(parts: &mut [Part], known: &BTreeMap<u32, Vec<Placement>>) -> Result<(), StepError> {
    let piece = |part: &Part| Some(Piece { kind: part.slices, placements: known.get(&part.slices)? });
    let Some(pieces) = parts.iter().map(piece).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let no_room = || StepError::NoRoom(parts.iter().map(|part| part.slices).collect());
    let places = fit(&pieces, &BTreeSet::new()).ok_or_else(no_room)?;
    for (part, place) in parts.iter_mut().zip(places) {
        part.placement = Some(place);
    }
    Ok(())
}
