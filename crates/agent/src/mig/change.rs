//! Changes one card, and puts it back where that fails.

use thiserror::Error;
use tracing::{info, warn};

use super::idle::{Busy, idle};
use super::journal::{Begun, Journal};
use super::layout::{Layout, steps};
use super::plan::plan;
use super::run_steps::{StepError, run_steps};
use super::wanted::{Unfit, Wanted};
use crate::checkpoint::CheckpointError;
use crate::handout::Claim;
use crate::nvml::{CallError, Division, Partitioner};

/// Which devices containers have. Asked right before a card is touched, and kept until that is over.
pub type Held<'a> = &'a dyn Fn() -> Claim;

/// What a change needs beside the card.
pub struct Means<'a> {
    /// Which devices containers have.
    pub held: Held<'a>,
    /// Is told before a card is touched.
    pub begins: &'a dyn Fn(),
    /// Is told when that is over.
    pub ends: &'a dyn Fn(),
    /// The changes that have begun.
    pub journal: &'a mut Journal,
}

/// Tells that a card is no longer touched, however that ended.
struct Over<'a>(&'a dyn Fn());

impl Drop for Over<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What came of a change.
#[derive(Debug)]
pub enum Changed {
    /// The card was as wanted before.
    Nothing,
    /// It is as wanted now.
    Done,
    /// It may not be touched now, and was not.
    Busy(Busy),
    /// Its mode changes at its next reset. What was in the way is gone.
    AwaitsReset(StepError),
    /// It failed.
    Failed {
        /// What did.
        why: Failure,
        /// Whether the card is as it was.
        restored: Restored,
    },
}

/// Whether a card is as it was before a change that failed.
#[derive(Debug)]
pub enum Restored {
    /// It was not touched.
    Untouched,
    /// It was put back.
    Back,
    /// It could not be put back; the journal keeps how it was, and it is tried again.
    Not(Failure),
}

/// What failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// The card cannot be as wanted.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] CallError),
    /// A step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] CheckpointError),
    /// All calls succeeded, and the card is not as it should be.
    #[error("every call succeeded, and yet the card is cut otherwise than asked for")]
    Otherwise,
    /// It has no MIG.
    #[error("the card has no MIG")]
    Incapable,
    /// It must not be touched to put it back.
    #[error("{0}")]
    Busy(Busy),
}

fn division(card: &Partitioner<'_>) -> Result<Division, Failure> {
    card.division()?.ok_or(Failure::Incapable)
}

/// Makes the card as wanted. Where that fails half-way the card is put back as it was: the same instances at the same
/// places.
pub fn change(card: &Partitioner<'_>, wanted: &Wanted, means: &mut Means<'_>) -> Changed {
    let Means { held, begins, ends, journal } = means;
    let untouched = |why: Failure| Changed::Failed { why, restored: Restored::Untouched };
    let from = match division(card) {
        Ok(from) => from,
        Err(why) => return untouched(why),
    };
    let target = match plan(&from, wanted) {
        Ok(layout) => Some(layout),
        Err(Unfit::Untold) => None,
        Err(unfit) => return untouched(unfit.into()),
    };
    if target.as_ref().is_some_and(|target| steps(&from, target).is_empty()) {
        end(journal, card);
        return Changed::Nothing;
    }
    let claim = held();
    if let Err(busy) = idle(card, &claim) {
        return Changed::Busy(busy);
    }
    let begun = Begun { card: card.uuid().clone(), former: Layout::of(&from), target: target.clone() };
    if let Err(error) = journal.begin(begun) {
        return untouched(error.into());
    }
    begins();
    let _over = Over(*ends);
    info!(card = %card.uuid(), %wanted, "the card is cut anew");
    let why = match carry_out(card, &from, target, wanted, journal) {
        Ok(()) => {
            end(journal, card);
            return Changed::Done;
        }
        Err(Failure::Step(pending @ StepError::Pending { .. })) => {
            end(journal, card);
            return Changed::AwaitsReset(pending);
        }
        Err(why) => why,
    };
    warn!(card = %card.uuid(), %why, "the change failed; the card is put back as it was");
    let former = journal.begun().iter().find(|begun| begun.card == *card.uuid()).map(|begun| begun.former.clone());
    let restored = match restore(card, &former.unwrap_or_else(|| Layout::of(&from))) {
        Ok(()) => {
            end(journal, card);
            Restored::Back
        }
        Err(failure) => Restored::Not(failure),
    };
    Changed::Failed { why, restored }
}

fn carry_out(
    card: &Partitioner<'_>,
    from: &Division,
    target: Option<Layout>,
    wanted: &Wanted,
    journal: &mut Journal,
) -> Result<(), Failure> {
    if let Some(target) = target {
        return reach(card, from, &target);
    }
    // Only in the mode does the driver tell what there is to plan with.
    reach(card, from, &Layout::empty())?;
    let now = division(card)?;
    let target = plan(&now, wanted)?;
    journal.begin(Begun { card: card.uuid().clone(), former: Layout::of(from), target: Some(target.clone()) })?;
    reach(card, &now, &target)
}

/// Takes the steps to a layout, and looks whether it is reached.
fn reach(card: &Partitioner<'_>, from: &Division, target: &Layout) -> Result<(), Failure> {
    run_steps(card, from, &steps(from, target))?;
    if steps(&division(card)?, target).is_empty() { Ok(()) } else { Err(Failure::Otherwise) }
}

/// Puts a card back: from however it is now.
fn restore(card: &Partitioner<'_>, former: &Layout) -> Result<(), Failure> {
    reach(card, &division(card)?, former)
}

/// A journal that cannot be written keeps a change that has ended. The next start finds that the card is as it should be.
fn end(journal: &mut Journal, card: &Partitioner<'_>) {
    if let Err(error) = journal.end(card.uuid()) {
        warn!(%error, "the journal of MIG changes keeps one that has ended");
    }
}

/// What became of a change that was interrupted.
#[derive(Debug)]
pub enum Recovered {
    /// It had been completed.
    Completed,
    /// The card is as it was before it.
    Back,
    /// Neither; it is tried again.
    Not(Failure),
}

/// Ends a change that a crash interrupted: it is done if the card is as it was to be, and taken back otherwise.
pub fn recover(card: &Partitioner<'_>, begun: &Begun, means: &mut Means<'_>) -> Recovered {
    let now = match division(card) {
        Ok(now) => now,
        Err(failure) => return Recovered::Not(failure),
    };
    let is = |layout: &Layout| steps(&now, layout).is_empty();
    let recovered = if begun.target.as_ref().is_some_and(is) {
        Recovered::Completed
    } else if is(&begun.former) {
        Recovered::Back
    } else {
        let claim = (means.held)();
        if let Err(busy) = idle(card, &claim) {
            return Recovered::Not(Failure::Busy(busy));
        }
        (means.begins)();
        let _over = Over(means.ends);
        match restore(card, &begun.former) {
            Ok(()) => Recovered::Back,
            Err(failure) => Recovered::Not(failure),
        }
    };
    if !matches!(recovered, Recovered::Not(_)) {
        end(means.journal, card);
    }
    recovered
}
