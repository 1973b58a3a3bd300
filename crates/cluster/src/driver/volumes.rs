//! Volumes on their way to being bound: what is written, what is still awaited, and what became of it.
//!
//! Writes go out one after the other, each with the version of the object that it was decided by: had somebody else
//! changed it, the API server refuses. A write without an answer is read back. Then the watches tell when all claims are
//! bound; nothing is polled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_scheduler_engine::model::{
    ClaimName, Millis, PodName, PodUid, StorageKey, Ticket, Timestamp, VolumeClaim, VolumePlan,
};
use gpu_scheduler_engine::state::State;

use super::effect::{Effect, VolumeWrite, Written};
use super::input::{VolumeAnswer, VolumeRead};

/// How long claims may take to be bound: kube-scheduler's `bindTimeoutSeconds`.
const PATIENCE: Millis = Millis(600_000);
/// Pause before a question without an answer is asked again.
const AGAIN: Millis = Millis(1_000);

/// How far one claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing is written.
    Open,
    /// The request is out.
    Sent,
    /// It took effect; the watch does not say so yet.
    Written,
    /// The watch says so.
    Seen,
}

/// One pod's volumes.
#[derive(Debug)]
struct Flight {
    uid: PodUid,
    pod: PodName,
    node: Arc<str>,
    plan: VolumePlan,
    /// By claim: bindings first, then provisions.
    progress: Vec<Progress>,
    until: Timestamp,
}

/// What becomes of a flight.
type End = Result<(), String>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct VolumeFlights {
    flights: BTreeMap<Ticket, Flight>,
    /// What is to be asked again, and when.
    pauses: BTreeSet<(Timestamp, Ticket, usize, bool)>,
    /// Versions of the claims and volumes that the watches have shown.
    versions: BTreeMap<StorageKey, String>,
}

impl VolumeFlights {
    /// The version of an object that a watch has shown; `None` for one that is gone.
    pub fn note_version(&mut self, key: StorageKey, version: Option<String>) {
        match version {
            Some(version) => drop(self.versions.insert(key, version)),
            None => drop(self.versions.remove(&key)),
        }
    }

    pub fn len(&self) -> usize {
        self.flights.len()
    }

    pub fn start(&mut self, now: Timestamp, ticket: Ticket, pod: (PodUid, PodName), node: Arc<str>, plan: VolumePlan) {
        let progress = vec![Progress::Open; plan.bindings.len() + plan.provisions.len()];
        let (uid, pod) = pod;
        // What was under way for an earlier place of the pod is not wanted any more.
        self.flights.retain(|_, flight| flight.uid != uid);
        self.flights.insert(ticket, Flight { uid, pod, node, plan, progress, until: now + PATIENCE });
    }

    /// When something is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        let ends = self.flights.values().map(|f| f.until).min();
        [ends, self.pauses.first().map(|(at, ..)| *at)].into_iter().flatten().min()
    }

    /// Goes on with all flights: effects to carry out, and flights that came to an end. `O(claims on their way)`.
    pub fn go_on(&mut self, now: Timestamp, state: &State) -> (Vec<Effect>, Vec<(Ticket, End)>) {
        let (mut effects, mut ends) = (Vec::new(), Vec::new());
        while let Some((at, ticket, index, read)) = self.pauses.first().copied()
            && at <= now
        {
            self.pauses.pop_first();
            let Some(flight) = self.flights.get(&ticket) else { continue };
            if flight.progress[index] != Progress::Sent {
                continue;
            }
            match self.write(ticket, index, state) {
                Ok(Some(write)) if read => effects.push(Effect::ReadVolume(write)),
                // Whatever is the case now, the step below finds it out.
                _ => drop(self.set(ticket, index, Progress::Open)),
            }
        }
        let tickets: Vec<Ticket> = self.flights.keys().copied().collect();
        for ticket in tickets {
            match self.step(now, ticket, state) {
                Ok(Some(effect)) => effects.push(effect),
                Ok(None) => {}
                Err(end) => {
                    self.flights.remove(&ticket);
                    ends.push((ticket, end));
                }
            }
        }
        (effects, ends)
    }

    /// The next thing to do for one flight; an error is its end.
    fn step(&mut self, now: Timestamp, ticket: Ticket, state: &State) -> Result<Option<Effect>, End> {
        let Some(flight) = self.flights.get(&ticket) else { return Ok(None) };
        let wanted = state.pod_of(&flight.uid).and_then(|p| p.plan.as_deref());
        if wanted.is_none_or(|(node, plan)| (node, plan) != (&flight.node, &flight.plan)) {
            return Err(Err(format!("pod {} does not exist any more, or its place is another", flight.pod)));
        }
        if flight.until <= now {
            return Err(Err(format!("binding volumes: not done within {} s", PATIENCE.0 / 1000)));
        }
        let mut all_bound = true;
        for index in 0..flight.progress.len() {
            let Some(flight) = self.flights.get(&ticket) else { return Ok(None) };
            match flight.progress[index] {
                // One after the other, as the plan has them.
                Progress::Sent => return Ok(None),
                Progress::Open => {
                    let write = self.write(ticket, index, state).map_err(Err)?;
                    let Some(flight) = self.flights.get_mut(&ticket) else { return Ok(None) };
                    match write {
                        Some(write) => {
                            flight.progress[index] = Progress::Sent;
                            return Ok(Some(Effect::WriteVolume(write)));
                        }
                        // The object says it already.
                        None => flight.progress[index] = Progress::Seen,
                    }
                    all_bound &= self.is_bound(ticket, index, state).map_err(Err)?;
                }
                Progress::Written | Progress::Seen => all_bound &= self.is_bound(ticket, index, state).map_err(Err)?,
            }
        }
        if all_bound { Err(Ok(())) } else { Ok(None) }
    }

    /// What is to be written for one claim; `None` where the object says it already, an error where it cannot be.
    fn write(&self, ticket: Ticket, index: usize, state: &State) -> Result<Option<VolumeWrite>, String> {
        let Some(flight) = self.flights.get(&ticket) else { return Ok(None) };
        let known = state.volumes();
        let claim = |name: &ClaimName| known.claim(name).ok_or_else(|| format!("claim {name} does not exist any more"));
        let version = |key: &StorageKey| self.versions.get(key).cloned().unwrap_or_default();
        let order = |version, what| Ok(Some(VolumeWrite { ticket, index, version, what }));
        if let Some((name, volume)) = flight.plan.bindings.get(index) {
            let claim = claim(name)?;
            let facts = known.volume(volume).ok_or_else(|| format!("volume {volume} does not exist any more"))?;
            let reference = facts.facts.claim.as_ref();
            match reference {
                Some(reference) if !reference.means(claim) => {
                    return Err(format!("volume {volume} is claimed by {}", reference.name));
                }
                Some(reference) if reference.uid.is_some() => return Ok(None),
                _ => {}
            }
            let key = StorageKey::Volume(volume.clone());
            let claim_version = version(&StorageKey::Claim(name.clone()));
            let (claim, uid, volume) = (name.clone(), claim.uid.clone(), volume.clone());
            return order(
                version(&key),
                Written::Claim { volume, claim, uid, claim_version, kept: reference.is_some() },
            );
        }
        let Some(name) = flight.plan.provisions.get(index - flight.plan.bindings.len()) else { return Ok(None) };
        match &claim(name)?.selected_node {
            Some(node) if *node == flight.node => Ok(None),
            Some(node) => Err(format!("the volume of claim {name} is made for node {node}")),
            None => {
                let key = StorageKey::Claim(name.clone());
                order(version(&key), Written::Node { claim: name.clone(), node: flight.node.clone() })
            }
        }
    }

    /// Whether one claim's binding is complete; an error where it was undone.
    fn is_bound(&mut self, ticket: Ticket, index: usize, state: &State) -> Result<bool, String> {
        let Some(flight) = self.flights.get_mut(&ticket) else { return Ok(false) };
        let known = state.volumes();
        let claim_of = |name: &ClaimName| -> Result<&VolumeClaim, String> {
            known.claim(name).ok_or_else(|| format!("claim {name} does not exist any more"))
        };
        if let Some((name, volume)) = flight.plan.bindings.get(index) {
            let claim = claim_of(name)?;
            let facts = known.volume(volume).ok_or_else(|| format!("volume {volume} does not exist any more"))?;
            let says = facts.facts.claim.as_ref().is_some_and(|c| c.uid.is_some() && c.means(claim));
            if !seen(&mut flight.progress[index], says, || format!("ClaimRef got reset for pv {volume:?}"))? {
                return Ok(false);
            }
            reachable(state, volume, &flight.node)?;
            return Ok(claim.is_bound());
        }
        let Some(name) = flight.plan.provisions.get(index - flight.plan.bindings.len()) else { return Ok(true) };
        let claim = claim_of(name)?;
        let says = claim.selected_node.as_ref() == Some(&flight.node);
        if !seen(&mut flight.progress[index], says, || format!("provisioning failed for PVC {:?}", name.name))? {
            return Ok(false);
        }
        if let Some(volume) = &claim.volume {
            if known.volume(volume).is_none() {
                return Ok(false);
            }
            reachable(state, volume, &flight.node)?;
        }
        Ok(claim.is_bound())
    }

    /// The answer to a write.
    pub fn answered(&mut self, ticket: Ticket, index: usize, answer: VolumeAnswer, state: &State) -> Answered {
        let Some(progress) = self.progress(ticket, index) else { return Answered::Open };
        match answer {
            VolumeAnswer::Done => {
                *progress = Progress::Written;
                Answered::Open
            }
            // Nothing is to be done any more: the term ends.
            VolumeAnswer::Deposed => Answered::Open,
            VolumeAnswer::Refused(why) => self.end(ticket, why),
            // The refusal may be that of a second request, because the first one took effect.
            VolumeAnswer::Conflict(_) | VolumeAnswer::Unknown(_) => match self.write(ticket, index, state) {
                Ok(Some(write)) => Answered::Ask(Effect::ReadVolume(write)),
                // The watch knows by now.
                Ok(None) => self.set(ticket, index, Progress::Seen),
                Err(why) => self.end(ticket, why),
            },
        }
    }

    /// What an object says that was read back.
    pub fn read_back(&mut self, now: Timestamp, ticket: Ticket, index: usize, answer: VolumeRead) -> Answered {
        if self.progress(ticket, index).is_none() {
            return Answered::Open;
        }
        match answer {
            VolumeRead::Written => self.set(ticket, index, Progress::Written),
            // Once more, when the watch has caught up with what was read.
            VolumeRead::NotWritten => self.pause(now, ticket, index, false),
            VolumeRead::Other(why) => self.end(ticket, why),
            VolumeRead::Unknown(_) => self.pause(now, ticket, index, true),
        }
    }

    fn progress(&mut self, ticket: Ticket, index: usize) -> Option<&mut Progress> {
        self.flights.get_mut(&ticket)?.progress.get_mut(index)
    }

    fn set(&mut self, ticket: Ticket, index: usize, to: Progress) -> Answered {
        if let Some(progress) = self.progress(ticket, index) {
            *progress = to;
        }
        Answered::Open
    }

    fn pause(&mut self, now: Timestamp, ticket: Ticket, index: usize, read: bool) -> Answered {
        self.pauses.insert((now + AGAIN, ticket, index, read));
        Answered::Open
    }

    fn end(&mut self, ticket: Ticket, why: String) -> Answered {
        self.flights.remove(&ticket);
        Answered::Failed(why)
    }
}

/// What an answer comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Nothing yet.
    Open,
    /// This has to be asked first.
    Ask(Effect),
    /// It is over.
    Failed(String),
}

/// Whether the watch has seen what was written; what was seen and is there no more was undone.
fn seen(progress: &mut Progress, says: bool, undone: impl FnOnce() -> String) -> Result<bool, String> {
    match (says, *progress) {
        (true, _) => {
            *progress = Progress::Seen;
            Ok(true)
        }
        (false, Progress::Seen) => Err(undone()),
        (false, _) => Ok(false),
    }
}

fn reachable(state: &State, volume: &str, node: &str) -> Result<(), String> {
    let facts = state.node_named(node).and_then(|n| n.facts());
    let facts = facts.ok_or_else(|| format!("node {node} does not exist any more"))?;
    let reaches =
        |v: &gpu_scheduler_engine::state::KnownVolume| v.reaches_by(state, facts, state.volumes().csi_node(node));
    if state.volumes().volume(volume).is_some_and(reaches) {
        return Ok(());
    }
    Err(format!("pv {volume:?} node affinity doesn't match node {node:?}"))
}
