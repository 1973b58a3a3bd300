//! The instances on one card: what is there, and what may still come.

use super::{ComputeProfile, Profile};

/// The GPU instances of one card. They never overlap, and there are never more of a profile than it allows.
#[derive(Clone, Debug, Default)]
pub struct Instances(Vec<GpuInstance>);

/// A part of a card with memory and engines of its own.
#[derive(Clone, Debug)]
pub struct GpuInstance {
    /// Its number on the card, which follows from profile and start.
    pub id: u32,
    /// What it was made by.
    pub profile: &'static Profile,
    /// Where it begins on the memory axis.
    pub start: u32,
    /// What it is cut into, ordered by id.
    pub compute: Vec<ComputeInstance>,
}

/// A part of a GPU instance's compute slices, which shares the rest with its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeInstance {
    /// Its number in the GPU instance.
    pub id: u32,
    /// What it was made by.
    pub profile: ComputeProfile,
    /// Where it begins on the slices of the GPU instance.
    pub start: u32,
}

/// Why an instance cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The place is taken, or there are as many of the profile as can be.
    #[error("there is no room for it")]
    NoRoom,
    /// The profile never begins there.
    #[error("its profile cannot begin there")]
    NoSuchPlacement,
}

/// Whether two stretches of an axis have a unit in common.
fn overlap(a: (u32, u32), b: (u32, u32)) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}

impl Instances {
    /// The instances, ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &GpuInstance> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The instance with this id.
    pub fn get(&self, id: u32) -> Option<&GpuInstance> {
        self.0.iter().find(|instance| instance.id == id)
    }

    /// The same, to be cut.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut GpuInstance> {
        self.0.iter_mut().find(|instance| instance.id == id)
    }

    fn is_free(&self, profile: &Profile, start: u32) -> bool {
        self.0.iter().all(|other| !overlap((start, profile.size), (other.start, other.profile.size)))
    }

    /// How many more of the profile can be made.
    pub fn remaining(&self, profile: &Profile) -> u32 {
        let there = self.0.iter().filter(|instance| instance.profile.id == profile.id).count() as u32;
        // The starts of one profile do not overlap each other.
        let free = profile.starts.iter().filter(|start| self.is_free(profile, **start)).count() as u32;
        free.min(profile.instances.saturating_sub(there))
    }

    /// Makes an instance, at the start or where the driver would put it.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or the profile never begins there.
    pub fn create(&mut self, profile: &'static Profile, start: Option<u32>) -> Result<u32, Refusal> {
        if start.is_some_and(|start| !profile.starts.contains(&start)) {
            return Err(Refusal::NoSuchPlacement);
        }
        if self.remaining(profile) == 0 {
            return Err(Refusal::NoRoom);
        }
        let start = match start {
            Some(start) => Some(start).filter(|start| self.is_free(profile, *start)),
            None => profile.preferred_starts().find(|start| self.is_free(profile, *start)),
        };
        let start = start.ok_or(Refusal::NoRoom)?;
        let id = profile.instance_id(start);
        self.0.push(GpuInstance { id, profile, start, compute: Vec::new() });
        self.0.sort_by_key(|instance| instance.id);
        Ok(id)
    }

    /// Takes the instance with this id away, with all that it is cut into.
    pub fn destroy(&mut self, id: u32) {
        self.0.retain(|instance| instance.id != id);
    }

    /// The MIG devices in the order of their index: each compute instance with the GPU instance that it is in.
    pub fn devices(&self) -> impl Iterator<Item = (&GpuInstance, &ComputeInstance)> {
        self.0.iter().flat_map(|instance| instance.compute.iter().map(move |compute| (instance, compute)))
    }
}

impl GpuInstance {
    /// How many more compute instances of the profile can be made.
    pub fn remaining(&self, profile: ComputeProfile) -> u32 {
        self.free_starts(profile).count() as u32
    }

    fn free_starts(&self, profile: ComputeProfile) -> impl Iterator<Item = u32> {
        profile.starts(self.profile.slices).filter(move |start| {
            self.compute.iter().all(|other| !overlap((*start, profile.slices), (other.start, other.profile.slices)))
        })
    }

    /// Makes a compute instance with the lowest id that is free, at the start or at the first that will do.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or the profile never begins there.
    pub fn create(&mut self, profile: ComputeProfile, start: Option<u32>) -> Result<u32, Refusal> {
        let free = (0..).find(|id| self.compute.iter().all(|other| other.id != *id)).expect("few ids are taken");
        self.create_as(free, profile, start)?;
        Ok(free)
    }

    /// The same, with a given id.
    ///
    /// # Errors
    ///
    /// Also if the id is taken.
    pub fn create_as(&mut self, id: u32, profile: ComputeProfile, start: Option<u32>) -> Result<(), Refusal> {
        if start.is_some_and(|start| !profile.starts(self.profile.slices).any(|place| place == start)) {
            return Err(Refusal::NoSuchPlacement);
        }
        let taken = self.compute.iter().any(|other| other.id == id);
        let start = self.free_starts(profile).find(|place| start.is_none_or(|start| start == *place));
        let start = start.filter(|_| !taken).ok_or(Refusal::NoRoom)?;
        self.compute.push(ComputeInstance { id, profile, start });
        self.compute.sort_by_key(|instance| instance.id);
        Ok(())
    }

    /// Takes the compute instance with this id away.
    pub fn destroy(&mut self, id: u32) {
        self.compute.retain(|instance| instance.id != id);
    }
}
