//! One card with all its values.

use uuid::Uuid;

use crate::describe::{
    self, Architecture, Brand, BusId, ComputeCapability, ComputeMode, Gpu, Link, Megabytes, Process, ProcessKind,
    Remote,
};
use crate::mig::{ComputeInstance, GpuInstance, Instances};
use crate::models::Model;

/// A card with all its values. What it measures is in [`gpu`](Self::gpu), as it was described.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its place in the list of cards.
    pub index: u32,
    /// What it is.
    pub model: &'static Model,
    /// Its UUID, `GPU-` and all.
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// The product line.
    pub brand: Brand,
    /// The chip's generation.
    pub architecture: Architecture,
    /// The chip's abilities.
    pub capability: ComputeCapability,
    /// The serial number.
    pub serial: String,
    /// The number in `/dev/nvidia0`.
    pub minor: u32,
    /// The NUMA node that it is attached to, if the machine has any.
    pub numa_node: Option<u32>,
    /// Its place on the bus.
    pub bus: BusId,
    /// Its NVLinks, one entry each.
    pub links: Vec<Link>,
    /// The mode of MIG.
    pub mig: MigMode,
    /// Its GPU instances.
    pub instances: Instances,
    /// Who may compute on it.
    pub compute_mode: ComputeMode,
    /// What was described.
    pub gpu: Gpu,
}

/// The mode of MIG, now and after the next reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigMode {
    /// Whether it is on.
    pub enabled: bool,
    /// Whether it will be.
    pub pending: bool,
}

/// What NVML calls a MIG device: a compute instance with the GPU instance that it is in.
#[derive(Clone, Copy, Debug)]
pub struct MigDevice<'a> {
    /// The card.
    pub card: &'a Card,
    /// Its part of the card.
    pub gpu_instance: &'a GpuInstance,
    /// Its part of that.
    pub compute_instance: &'a ComputeInstance,
}

/// The namespace of all UUIDs that follow from something.
const NAMESPACE: Uuid = Uuid::from_u128(0x9c5a_94f0_57e2_4a0c_9d7b_1f0e_6b34_82d1);

/// The UUID that follows from a text.
pub(super) fn uuid_of(text: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, text.as_bytes())
}

impl Card {
    /// All of its memory.
    pub fn memory_total(&self) -> Megabytes {
        self.gpu.memory.total.unwrap_or(self.model.memory)
    }

    /// What the driver keeps of it.
    pub fn memory_reserved(&self) -> Megabytes {
        self.gpu.memory.reserved.unwrap_or(self.model.reserved)
    }

    /// What is used of it.
    pub fn memory_used(&self) -> Megabytes {
        self.gpu.memory.used.unwrap_or_else(|| self.gpu.processes.iter().map(|process| process.used).sum())
    }

    /// The processes of one of NVML's lists.
    pub fn processes(&self, kind: ProcessKind) -> impl Iterator<Item = &Process> {
        self.gpu.processes.iter().filter(move |process| process.kind == kind)
    }

    /// Whether it can be divided at all.
    pub fn is_mig_capable(&self) -> bool {
        self.model.mig.is_some()
    }

    /// Whether it has monitors of performance.
    pub fn has_gpm(&self) -> bool {
        self.architecture >= Architecture::Hopper
    }

    /// Its MIG devices, in the order of their indices.
    pub fn mig_devices(&self) -> impl Iterator<Item = MigDevice<'_>> {
        self.instances.devices().map(|(gpu_instance, compute_instance)| MigDevice {
            card: self,
            gpu_instance,
            compute_instance,
        })
    }

    /// Whether a link of it leads straight to the other card, or both have one to a switch.
    pub fn is_linked_to(&self, other: &Self) -> bool {
        let to_switch = |card: &Self| card.links.iter().any(|link| link.active && link.remote == Remote::Switch);
        let to_other = |link: &Link| match &link.remote {
            Remote::Switch => false,
            Remote::Gpu(uuid) => *uuid == other.uuid,
            Remote::Index(index) => *index == other.index,
        };
        self.links.iter().any(|link| link.active && to_other(link)) || (to_switch(self) && to_switch(other))
    }

    /// The division of the card in the words of a description, every number said.
    pub fn described_mig(&self) -> describe::Mig {
        let compute = |instance: &ComputeInstance| describe::ComputeInstance {
            id: Some(instance.id),
            slices: instance.profile.slices,
            start: Some(instance.start),
        };
        let instances = self.instances.iter().map(|instance| describe::GpuInstance {
            start: Some(instance.start),
            compute_instances: Some(instance.compute.iter().map(compute).collect()),
            ..describe::GpuInstance::of(&instance.profile.name)
        });
        describe::Mig { enabled: self.mig.enabled, pending: Some(self.mig.pending), instances: instances.collect() }
    }

    /// What the description says of a GPU instance of the card, if it has that very one.
    pub(crate) fn description_of(&self, instance: &GpuInstance) -> Option<&describe::GpuInstance> {
        // An instance whose start is left to the driver cannot be told from another of its profile, and need not be.
        self.gpu.mig.instances.iter().find(|described| {
            described.profile == instance.profile.name && described.start.is_none_or(|start| start == instance.start)
        })
    }
}

impl MigDevice<'_> {
    /// Its UUID. It follows from the card's and the placement, so an instance that is made again is the same device.
    pub fn uuid(&self) -> String {
        let Self { card, gpu_instance, compute_instance } = self;
        let text = format!(
            "{} {} {} {} {}",
            card.uuid,
            gpu_instance.profile.name,
            gpu_instance.start,
            compute_instance.profile.slices,
            compute_instance.start
        );
        format!("MIG-{}", uuid_of(&text))
    }

    /// The name of its profile: `3g.20gb`, or `1c.3g.20gb` where it has less than all of the compute slices.
    pub fn profile(&self) -> String {
        let (profile, compute) = (self.gpu_instance.profile, self.compute_instance.profile);
        match compute.slices == profile.slices {
            true => profile.name.clone(),
            false => format!("{}c.{}", compute.slices, profile.name),
        }
    }

    /// Whether a process runs on it.
    pub fn runs(&self, process: &Process) -> bool {
        process.gpu_instance == Some(self.gpu_instance.id)
            && process.compute_instance.unwrap_or(0) == self.compute_instance.id
    }

    /// What is used of the memory that it shares with its siblings.
    pub fn memory_used(&self) -> Megabytes {
        let described = self.card.description_of(self.gpu_instance).and_then(|described| described.used);
        let here = |process: &&Process| process.gpu_instance == Some(self.gpu_instance.id);
        described.unwrap_or_else(|| self.card.gpu.processes.iter().filter(here).map(|process| process.used).sum())
    }
}
