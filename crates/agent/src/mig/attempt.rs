//! One attempt to make all cards of the node as the label wants them.

use std::path::Path;

use tracing::{info, warn};

use super::change::{Changed, Failure, Means, Recovered, Restored, change, recover};
use super::choose::{Facts, choose};
use super::file::MigFile;
use super::journal::Begun;
use super::layout::steps;
use super::plan::plan;
use super::state::{MigState, MigStatus};
use super::wanted::{Unfit, Wanted};
use crate::inventory::{CardIndex, GpuUuid};
use crate::nvml::{Division, Library, Partitioner};

/// Where to look, and what follows from a mode that waits for a reset.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The driver's library.
    pub nvml_path: &'a Path,
    /// The file of configurations; without one the standard names count.
    pub file: Option<&'a Path>,
    /// Whether somebody reboots nodes that are in the state `rebooting`.
    pub reboots: bool,
}

/// When to try again although nothing was said anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Not at all: the same would come of it.
    Never,
    /// What was interrupted is still to be put back.
    Recover,
    /// All of it: cards may be idle by then, or reset, or the driver there.
    All,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What to say; `None` where nothing is wanted of the node.
    pub status: Option<MigStatus>,
    /// When to try again.
    pub again: Again,
}

fn failed(reason: impl Into<String>, again: Again) -> Outcome {
    Outcome { status: Some(MigStatus::failed(reason)), again }
}

/// A card of the node.
struct NodeCard<'a> {
    index: CardIndex,
    card: Partitioner<'a>,
    pci_device: u32,
    division: Option<Division>,
}

impl NodeCard<'_> {
    fn named(&self) -> String {
        format!("card {} ({})", self.index.0, self.card.uuid())
    }

    /// Whether it is as wanted.
    fn is(&self, wanted: Option<&Wanted>) -> bool {
        let (Some(division), Some(wanted)) = (&self.division, wanted) else { return true };
        plan(division, wanted).is_ok_and(|layout| steps(division, &layout).is_empty())
    }
}

/// Ends what was interrupted, and makes the cards as the configuration `label` wants them, unless `only` that was to be
/// ended: then nothing is said but a success that was seen.
pub fn attempt(label: Option<&str>, only: Again, setting: &Setting<'_>, means: &mut Means<'_>) -> Outcome {
    if label.is_none() && means.journal.begun().is_empty() {
        return Outcome { status: None, again: Again::Never };
    }
    let library = match Library::open(setting.nvml_path) {
        Ok(library) => library,
        Err(error) => return failed(error.to_string(), Again::All),
    };
    let cards = match Partitioner::all(&library) {
        Ok(cards) => cards,
        Err(error) => return failed(format!("the cards cannot be read: {error}"), Again::All),
    };
    let trouble = end_interrupted(&cards, means);
    let Some(label) = label else {
        return Outcome { status: None, again: recover_again(means) };
    };
    let cards = match read(cards) {
        Ok(cards) => cards,
        Err(reason) => return failed(reason, Again::All),
    };
    let wanted = match wanted(label, setting.file, &cards) {
        Ok(wanted) => wanted,
        Err(reason) => return failed(reason, recover_again(means)),
    };
    if only == Again::Recover {
        let again = recover_again(means);
        let so = again == Again::Never && cards.iter().zip(&wanted).all(|(card, wanted)| card.is(wanted.as_ref()));
        return Outcome { status: so.then(|| MigStatus::plain(MigState::Success)), again };
    }
    let mut sum = Sum::default();
    for (card, wanted) in cards.iter().zip(&wanted) {
        if let Some(wanted) = wanted {
            sum.add(card, change(&card.card, wanted, means));
        }
    }
    let left = |begun: &Begun| {
        let said = trouble.iter().find(|(card, _)| *card == begun.card).map(|(_, why)| why.clone());
        said.map(|why| format!("an interrupted change of {} is not ended: {why}", begun.card))
    };
    let problems: Vec<String> = means.journal.begun().iter().filter_map(left).collect();
    sum.outcome(problems, setting.reboots, means.journal.begun().is_empty())
}

fn recover_again(means: &Means<'_>) -> Again {
    if means.journal.begun().is_empty() { Again::Never } else { Again::Recover }
}

/// Ends changes that were interrupted; those that cannot be ended, and why.
fn end_interrupted(cards: &[(CardIndex, Partitioner<'_>)], means: &mut Means<'_>) -> Vec<(GpuUuid, String)> {
    let mut trouble = Vec::new();
    for begun in means.journal.begun().to_vec() {
        let Some((_, card)) = cards.iter().find(|(_, card)| *card.uuid() == begun.card) else {
            trouble.push((begun.card, "the card is not there".to_owned()));
            continue;
        };
        match recover(card, &begun, means) {
            Recovered::Completed => info!(card = %begun.card, "an interrupted change of MIG had been completed"),
            Recovered::Back => warn!(card = %begun.card, "an interrupted change of MIG was taken back"),
            Recovered::Not(why) => {
                warn!(card = %begun.card, %why, "an interrupted change of MIG cannot be ended yet");
                trouble.push((begun.card, why.to_string()));
            }
        }
    }
    trouble
}

fn read(cards: Vec<(CardIndex, Partitioner<'_>)>) -> Result<Vec<NodeCard<'_>>, String> {
    let mut read = Vec::new();
    for (index, card) in cards {
        let values = card.pci_device().and_then(|pci_device| Ok((pci_device, card.division()?)));
        match values {
            Ok((pci_device, division)) => read.push(NodeCard { index, card, pci_device, division }),
            Err(error) => return Err(format!("card {} ({}) cannot be read: {error}", index.0, card.uuid())),
        }
    }
    Ok(read)
}

/// What is wanted of each card. All are planned before one is touched, so a configuration that does not fit changes none.
fn wanted(label: &str, file: Option<&Path>, cards: &[NodeCard<'_>]) -> Result<Vec<Option<Wanted>>, String> {
    let file = file.map(MigFile::load).transpose().map_err(|error| error.to_string())?;
    let facts: Vec<Facts<'_>> = cards
        .iter()
        .map(|card| Facts { index: card.index, pci_device: card.pci_device, division: card.division.as_ref() })
        .collect();
    let wanted = choose(label, file.as_ref(), &facts).map_err(|error| error.to_string())?;
    let unfit = |(card, wanted): (&NodeCard<'_>, &Option<Wanted>)| match plan(card.division.as_ref()?, wanted.as_ref()?)
    {
        Ok(_) | Err(Unfit::Untold) => None,
        Err(unfit) => Some(format!("{}: {unfit}", card.named())),
    };
    let problems: Vec<String> = cards.iter().zip(&wanted).filter_map(unfit).collect();
    if problems.is_empty() { Ok(wanted) } else { Err(format!("no card was touched; {}", problems.join("; "))) }
}

/// What came of all cards.
#[derive(Default)]
struct Sum {
    failures: Vec<String>,
    resets: Vec<String>,
    again: bool,
}

impl Sum {
    fn add(&mut self, card: &NodeCard<'_>, changed: Changed) {
        let (name, index) = (card.named(), card.index.0);
        match changed {
            Changed::Nothing | Changed::Done => {}
            Changed::Busy(busy) => {
                self.again = true;
                self.failures.push(format!("{name} is in use and stays as it is: {busy}"));
            }
            Changed::AwaitsReset(pending) => {
                self.again = true;
                let advice = format!("reset it (nvidia-smi --gpu-reset -i {index}) or reboot the node");
                self.resets.push(format!("{name}: {pending}; {advice}, and the change goes on"));
            }
            Changed::Failed { why, restored } => {
                // What cannot be read or written down now may be later.
                self.again |=
                    matches!((&why, &restored), (Failure::Read(_) | Failure::Journal(_), Restored::Untouched));
                let then = match restored {
                    Restored::Untouched => "it was not touched".to_owned(),
                    Restored::Back => "it was put back as it was".to_owned(),
                    Restored::Not(failure) => format!("it could not be put back ({failure}); this is tried again"),
                };
                self.failures.push(format!("{name}: {why}; {then}"));
            }
        }
    }

    fn outcome(mut self, problems: Vec<String>, reboots: bool, ended: bool) -> Outcome {
        self.failures.extend(problems);
        let again = match (self.again, ended) {
            (true, _) => Again::All,
            (false, true) => Again::Never,
            (false, false) => Again::Recover,
        };
        let waits = !self.resets.is_empty();
        let state = match (self.failures.is_empty(), waits) {
            (true, false) => return Outcome { status: Some(MigStatus::plain(MigState::Success)), again },
            (true, true) if reboots => MigState::Rebooting,
            _ => MigState::Failed,
        };
        self.failures.append(&mut self.resets);
        Outcome { status: Some(MigStatus { state, reason: Some(self.failures.join("; ")) }), again }
    }
}
